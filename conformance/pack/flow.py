"""How the named tensors of a layer are made of one another, for whoever draws them.

Read off the program: a function's equations are followed into the functions that they call, and what
has no name outside of the program is passed over. A "layer" is what the model repeats.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from conformance.language.program import Choices, Function, Program, reachable
from conformance.pack.model import Pack, Variant

REPEAT = "repeat"
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Stage:
    """A named tensor: its axes, its equation ('' for an input) and the named tensors that it is made of."""

    tensor: str
    axes: tuple[str, ...]
    equation: str
    sources: tuple[str, ...]


def layer_flow(pack: Pack, variant: Variant) -> tuple[Stage, ...]:
    """The stages of the layer that a variant repeats, in the order of the program; () where none repeats.

    Of several, the one with the most stages: of an encoder-decoder the decoder's.
    """
    flows = []
    for operation in pack.operations.values():
        if operation.model:
            choices = {**variant.choices, **operation.choices}
            for name in sorted(_repeated(pack.program, operation.function, choices)):
                flow = _Flow(pack.program, choices)
                function = pack.program.functions[name]
                flow.follow(function, {}, "")
                flows.append(tuple(flow.stages.values()))
    return max(flows, key=len, default=())


def _repeated(program: Program, start: str, choices: Choices) -> set[str]:
    """Names of the functions that are repeated when `start` is called."""
    calls = {name: list(_calls(function, choices)) for name, function in program.functions.items()}
    called = {name: [_called(call) for call in made] for name, made in calls.items()}
    return {
        call.args[0].id
        for name in reachable(program, start, called)
        for call in calls[name]
        if _called(call) == REPEAT and call.args and isinstance(call.args[0], ast.Name)
    }


def _calls(function: Function, choices: Choices) -> Iterator[ast.Call]:
    for equation in (*function.let, function.result):
        expression = equation.pick(choices)
        if expression is not None:
            yield from (node for node in ast.walk(expression.tree) if isinstance(node, ast.Call))


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


@dataclass
class _Flow:
    program: Program
    choices: Choices
    stages: dict[str, Stage] = field(default_factory=dict)

    def follow(self, function: Function, given: Mapping[str, frozenset[str]], at: str) -> frozenset[str]:
        """Which named tensors the result of a call is made of; what has a name on the way becomes a stage."""
        known = dict(given)
        for name in function.given:
            if self._named(function, name):
                known[name] = self._stage(at, name, "", known.get(name, _NONE))
        for equation in function.let:
            expression = equation.pick(self.choices)
            if expression is None:
                continue
            sources = self._sources(expression.tree, known, at)
            named = self._named(function, equation.name)
            known[equation.name] = (
                self._stage(at, equation.name, expression.text, sources) if named else sources
            )
        result = function.result.pick(self.choices)
        return _NONE if result is None else self._sources(result.tree, known, at)

    def _named(self, function: Function, name: str) -> bool:
        """Whether a tensor is one that a target can show."""
        return self.program.tap(function.name, name) and self.program.tensors[name].offered

    def _stage(self, at: str, name: str, equation: str, sources: frozenset[str]) -> frozenset[str]:
        full = f"{at}{name}"
        order = [stage for stage in self.stages if stage in sources]
        self.stages.setdefault(
            full, Stage(full, self.program.tensors[name].axes, " ".join(equation.split()), tuple(order))
        )
        return frozenset({full})

    def _sources(self, node: ast.expr, known: Mapping[str, frozenset[str]], at: str) -> frozenset[str]:
        match node:
            case ast.Name(id=name):
                return known.get(name, _NONE)
            case ast.Call():
                return self._call(node, known, at)
            case _:
                children = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
                return _NONE.union(*(self._sources(child, known, at) for child in children))

    def _call(self, call: ast.Call, known: Mapping[str, frozenset[str]], at: str) -> frozenset[str]:
        name, arguments = _called(call), list(call.args)
        if name == REPEAT and arguments and isinstance(arguments[0], ast.Name):
            name = arguments.pop(0).id  # type: ignore[attr-defined]
        sources = [self._sources(argument, known, at) for argument in arguments]
        function = self.program.functions.get(name)
        if function is None:
            # A bare name after a keyword is an axis.
            named = [
                k.value for k in call.keywords if not isinstance(k.value, ast.Name | ast.Tuple | ast.Constant)
            ]
            return _NONE.union(*sources, *(self._sources(value, known, at) for value in named))
        given = dict(zip(function.given, sources, strict=False))
        for keyword in call.keywords:
            if keyword.arg is not None and keyword.arg in function.given:
                given[keyword.arg] = self._sources(keyword.value, known, at)
            elif keyword.arg == "at":
                at = f"{at}{ast.literal_eval(keyword.value)}."
        return self.follow(function, given, at)
