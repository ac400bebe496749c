"""The program read over symbolic sizes in many variants, each function evaluated as rarely as can be.

Most variants differ in little, and most calls do not see the difference. A `Trace` is one
evaluation of a call: the choices that it asked for itself, and what each call that it made gave.
In another variant where all of that is the same, so is its outcome, and nothing is evaluated again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from conformance.language.checked import CheckedScope
from conformance.language.declarations import UNKNOWN
from conformance.language.errors import PackError
from conformance.language.expression import names_in
from conformance.language.names import Value
from conformance.language.parameters import callee, calls_in
from conformance.language.program import OTHERWISE, RESULT, Choices, Function, Program, key_of, reachable
from conformance.language.sizes import Dimension
from conformance.language.symbolic import Shape, tensor_of
from conformance.language.tensors import Named

Condition = tuple[str, tuple[str, ...]]
"""A choice, and those of its values that are told apart from all others; none: all are."""


class _Told(dict[Condition, str]):
    """The answers of a variant, worked out once: they are asked for very often."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        super().__init__()
        self.keys_of = keys

    def __missing__(self, condition: Condition) -> str:
        name, values = condition
        key = self.keys_of.get(name, "")
        self[condition] = key if not values or key in values else OTHERWISE
        return self[condition]


@dataclass(frozen=True, eq=False)
class Variant:
    """The choices of a variant; `told` says which of the values that a condition tells apart it has."""

    choices: Choices
    told: Mapping[Condition, str]
    principal: bool = False

    @staticmethod
    def of(choices: Choices, principal: bool = False) -> Variant:
        """A variant with these choices. What a mistake breaks elsewhere is looked for in principal ones."""
        return Variant(choices, _Told({name: key_of(value) for name, value in choices.items()}), principal)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a caller computes with of a call: the result (None after an error), and state by its path."""

    result: Named[Shape] | None
    state: tuple[tuple[str, Value], ...]


@dataclass(eq=False)
class Trace:
    """One evaluation of a call, with the errors of its own equations, and the variants in which it holds.

    `calls` are those that it made, with the prefix of their taps; `taps` are those of its own.
    """

    conditions: dict[Condition, str]
    calls: list[tuple[str, Call, Outcome]]
    outcome: Outcome
    env: dict[str, Value]
    taps: tuple[str, ...]
    errors: tuple[PackError, ...]
    variants: list[Variant] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Standing:
    """What a call comes to in some variants: its trace and all those inside it, and what they make visible.

    `asked` is all that these traces depend on.
    """

    traces: tuple[Trace, ...]
    taps: tuple[str, ...]
    asked: tuple[Condition, ...]

    @property
    def errors(self) -> list[PackError]:
        """All errors that are met on the way."""
        return [error for trace in self.traces for error in trace.errors]


@dataclass(eq=False)
class Call:
    """A function with inputs, sizes and state: what its outcome depends on, but for the choices.

    `now` is its standing in `variant`, the last one looked at; `known` finds those in other variants
    by all that they ask. `root` is what was being read from outside when the call was first met.
    """

    function: Function
    inputs: Mapping[str, Value]
    sizes: Mapping[str, Dimension]
    state: Mapping[str, Value]
    stateless: bool
    root: object
    traces: list[Trace] = field(default_factory=list)
    known: dict[tuple[Condition, ...], dict[tuple[str, ...], Standing]] = field(default_factory=dict)
    variant: Variant | None = None
    now: Standing = Standing((), (), ())


class Checker:
    """Evaluates calls in variants and keeps what came out."""

    lenient = False
    """Whether an axis may have two sizes in a call, where no operation brings them together."""

    def __init__(
        self,
        program: Program,
        numbers: Mapping[str, int],
        axes: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        """`numbers` are those that the program reads besides sizes and choices.

        `axes` are those of which a function may ask its caller's size; more than it does ask do no harm.
        """
        self.program, self.numbers = program, numbers
        self.calls: dict[Any, Call] = {}
        self.outcomes: dict[Any, Outcome] = {}
        self.tensors: dict[Any, Named[Shape]] = {}
        self.parameters: dict[tuple[str, ...], Named[Shape]] = {}
        self.entered: set[str] = set()
        self.used: set[tuple[str, str, str]] = set()
        self.root: object = None
        self.axes = axes_mentioned(program) if axes is None else axes
        self.order = {name: i for i, name in enumerate(program.axes.by_name)}

    def call(
        self,
        function: Function,
        inputs: Mapping[str, Value],
        sizes: Mapping[str, Dimension],
        state: Mapping[str, Value],
        stateless: bool = False,
    ) -> Call:
        """The call with these circumstances, always the same object."""
        mentioned = self.axes[function.name]
        inputs = {name: self.interned(inputs[name]) for name in function.given if name in inputs}
        state = {path: self.interned(value) for path, value in state.items()}
        sizes = {axis: sizes[axis] for axis in mentioned if axis in sizes}
        key = (
            function.name,
            tuple(inputs.items()),
            tuple(sizes.items()),
            frozenset(state.items()),
            stateless,
        )
        if key not in self.calls:
            self.calls[key] = Call(function, inputs, sizes, state, stateless, self.root)
        return self.calls[key]

    def read(self, call: Call, variant: Variant) -> Standing:
        """What a call comes to in a variant; evaluates it if nothing that is known holds there."""
        if call.variant is variant:
            return call.now
        call.variant, told = variant, variant.told
        for asked, known in call.known.items():
            found = known.get(tuple([told[condition] for condition in asked]))
            if found is not None:
                call.now = found
                for trace in found.traces:
                    if trace.variants[-1] is not variant:
                        trace.variants.append(variant)
                return found
        held = next((trace for trace in call.traces if self.holds(trace, variant)), None)
        sound = held is not None and (held.errors or not self.clash(held))
        trace = held if held is not None and sound else self.evaluate(call, variant)
        trace.variants.append(variant)
        inner = [c.now for _, c, _ in trace.calls]
        traces = dict.fromkeys((trace, *(t for standing in inner for t in standing.traces)))
        asked = tuple(
            sorted({*trace.conditions, *(condition for standing in inner for condition in standing.asked)})
        )
        call.now = Standing(tuple(traces), self.taps(trace), asked)
        call.known.setdefault(asked, {})[tuple([told[condition] for condition in asked])] = call.now
        return call.now

    def holds(self, trace: Trace, variant: Variant) -> bool:
        """Whether an evaluation in another variant would be the same, but for what it makes visible."""
        return all(variant.told[condition] == told for condition, told in trace.conditions.items()) and all(
            self.read(call, variant).traces[0].outcome is outcome for _, call, outcome in trace.calls
        )

    @staticmethod
    def taps(trace: Trace) -> tuple[str, ...]:
        """All that a trace makes visible in the variant that its calls were read in last."""
        return (*trace.taps, *(prefix + path for prefix, call, _ in trace.calls for path in call.now.taps))

    def clash(self, trace: Trace) -> bool:
        """Whether two of its calls make the same tensor visible."""
        taps = self.taps(trace)
        return len(set(taps)) != len(taps)

    def evaluate(self, call: Call, variant: Variant) -> Trace:
        """Evaluate a call in a variant."""
        scope = CheckedScope(self, call, variant)
        scope.begin(call.inputs)
        for equation in call.function.let:
            scope.bind_equation(equation)
        result = scope.finish()
        scope.keep()
        env = {**scope.env, RESULT: result}
        outcome = self.result(result, scope)
        trace = Trace(scope.conditions, scope.calls, outcome, env, tuple(scope.visible), tuple(scope.errors))
        call.traces.append(trace)
        return trace

    def parameter(self, axes: tuple[str, ...]) -> Named[Shape]:
        """A parameter of these axes, always the same object."""
        if axes not in self.parameters:
            self.parameters[axes] = tensor_of(self.program.axes, axes, "real")
        return self.parameters[axes]

    def may_agree(self, one: Dimension, other: Dimension) -> bool:
        """Whether sizes that differ are let pass, since some config makes them equal."""
        del one, other
        return False

    def result(self, result: Value, scope: CheckedScope) -> Outcome:
        """The outcome with these parts, always the same object."""
        value = None if result is UNKNOWN else self.interned(result)
        state = tuple((path, self.interned(kept)) for path, kept in scope.state.items())
        key = (value, state)
        return self.outcomes.setdefault(key, Outcome(*key))

    def interned(self, value: Value) -> Value:
        """A tensor with its axes in the order of the pack, always the same object."""
        if not isinstance(value, Named):
            return value
        found = self.tensors.get((value.axes, value.array))
        if found is None:
            order = sorted(range(len(value.axes)), key=lambda i: self.order.get(value.axes[i], -1))
            axes = tuple(value.axes[i] for i in order)
            array = Shape(value.array.kind, tuple(value.array.sizes[i] for i in order))
            found = self.tensors.setdefault((axes, array), Named(axes, array))
            self.tensors[value.axes, value.array] = found
        return found


def axes_mentioned(program: Program) -> dict[str, tuple[str, ...]]:
    """For each function the axes of which it may ask its caller's size, for itself or what it calls."""
    axes, symbols = program.axes.by_name, program.axes.by_symbol
    own: dict[str, set[str]] = {}
    calls: dict[str, set[str]] = {}
    for function in program.functions.values():
        words = set(function.gives)
        calls[function.name] = set()
        for expression in function.expressions():
            words |= names_in(expression)
            for call in calls_in(expression):
                words.update(str(keyword.arg) for keyword in call.keywords)
                calls[function.name].add(callee(call)[0])
        own[function.name] = {word for word in words if word in axes} | {
            symbols[w] for w in words if w in symbols
        }
        own[function.name] |= {name for name, axis in axes.items() if axis.config}
        for given in function.given.values():
            if not given.optional:
                own[function.name] -= set(given.axes)
    return {
        name: tuple(sorted(set().union(*(own[callee] for callee in reachable(program, name, calls)))))
        for name in program.functions
    }
