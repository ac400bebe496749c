"""Functions of the program that are one operator of ONNX: which ones a table says, and they are written here."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from conformance.exporting.graph import Value as Emitted
from conformance.exporting.patterns import Match, Pattern, matched
from conformance.language.expression import Expression, parse
from conformance.language.names import Value
from conformance.language.sizes import Dimension
from conformance.language.tensors import Named

if TYPE_CHECKING:
    from conformance.exporting.reading import EmittingScope
    from conformance.language.program import Choices, Function, Program

TABLE = Path(__file__).with_name("operators.yaml")
OTHERS = "..."


@dataclass(frozen=True)
class Operator:
    """One entry of the table; see there."""

    name: str
    opset: int
    dtypes: tuple[str, ...]
    pattern: Pattern
    inputs: tuple[tuple[Expression, tuple[str, ...]], ...]
    attributes: Mapping[str, Any]
    gives: tuple[str, ...]


@dataclass(frozen=True)
class Operators:
    """The operators that an opset has, and which functions of a program each can stand for."""

    entries: tuple[Operator, ...]
    known: dict[str, list[tuple[Operator, Match]]] = field(default_factory=dict)

    def of(self, function: Function, program: Program, choices: Choices) -> Sequence[tuple[Operator, Match]]:
        """Those that have the form of a function, which is looked at once."""
        if function.name not in self.known:
            found = [(e, matched(e.pattern, function, program, choices)) for e in self.entries]
            self.known[function.name] = [(e, match) for e, match in found if match is not None]
        return self.known[function.name]

    def written(self, scope: EmittingScope, inputs: Mapping[str, Value]) -> Named[Emitted] | None:
        """A call as one operator; None where there is none for it, in this dtype and with these axes."""
        reading = scope.reading
        for operator, match in self.of(scope.function, reading.program, reading.choices):
            if scope.emission.real in operator.dtypes:
                made = _Writing(scope, operator, match).made(inputs)
                if made is not None:
                    return made
        return None


def operators_of(opset: int) -> Operators:
    """The operators of an opset, in the order of the table."""
    return Operators(tuple(entry for entry in table() if entry.opset <= opset))


@cache
def table() -> tuple[Operator, ...]:
    """The table as it stands in `operators.yaml`."""
    given = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    functions = {name: _pattern(entry, {}) for name, entry in given["functions"].items()}
    return tuple(
        Operator(
            entry["operator"],
            entry["opset"],
            tuple(entry["dtypes"]),
            _pattern(entry, functions),
            tuple((parse(value["is"]), tuple(value["axes"].split())) for value in entry["inputs"]),
            entry["attributes"],
            tuple(entry["gives"].split()),
        )
        for entry in given["operators"]
    )


def _pattern(entry: Mapping[str, Any], functions: Mapping[str, Pattern]) -> Pattern:
    return Pattern(
        tuple(entry["tensors"]),
        tuple(entry.get("numbers", ())),
        entry["axes"],
        {name: parse(text).tree for name, text in entry.get("let", {}).items()},
        parse(entry["is"]).tree,
        functions,
    )


class _Writing:
    """One call written as an operator."""

    def __init__(self, scope: EmittingScope, operator: Operator, match: Match) -> None:
        self.scope, self.operator, self.match = scope, operator, match
        self.axes = dict(match.axes)
        """What each word of a layout is; those that no equation names are found as inputs are laid out."""
        self.others: tuple[str, ...] = ()
        self.sizes: dict[str, Dimension] = {}

    def made(self, inputs: Mapping[str, Value]) -> Named[Emitted] | None:
        """The operator's result; None where something has not the form that it takes."""
        graph = self.scope.emission.graph
        place = graph.place
        self.scope.begin(inputs)
        values = self._values()
        attributes = self._attributes(values) if values is not None else None
        if values is None or attributes is None:
            return None
        laid = []
        for i, (expression, words) in enumerate(self.operator.inputs):
            value = self._input(expression, values)
            if isinstance(value, int | float):
                continue  # a parameter that the variant has not; it is the last
            array = self._laid(value, words, first=i == 0)
            if array is None:
                return None
            laid.append(array)
        if len({value.type for value in laid if value.real}) != 1:
            return None
        axes = [axis for word in self.operator.gives for axis in self._named(word)]
        sizes = [self.sizes[axis] for axis in axes]
        counted = {
            name: -1 - axes[::-1].index(self.axes[value]) if isinstance(value, str) else value
            for name, value in attributes.items()
        }
        graph.place = place  # the call's, not that of the last equation that had to be evaluated
        made = graph.node(self.operator.name, laid, laid[0].type, sizes, **counted)
        return self.scope.operations.ordered(Named(tuple(axes), made), self.scope.operations.in_result(axes))

    def _values(self) -> dict[str, Value] | None:
        """What the pattern's tensors and numbers are; the equations that they mention are evaluated first."""
        function = self.scope.function
        mentioned = {
            n.id for piece in self.match.pieces.values() for n in ast.walk(piece) if isinstance(n, ast.Name)
        }
        for equation in reversed(function.let):
            expression = equation.pick(self.scope.reading.choices)
            if equation.name in mentioned and expression is not None:
                mentioned |= {n.id for n in ast.walk(expression.tree) if isinstance(n, ast.Name)}
        for equation in function.let:
            if equation.name in mentioned:
                self.scope.bind_equation(equation)
        values: dict[str, Value] = {}
        for name, piece in self.match.pieces.items():
            value = self.scope.evaluate(Expression(ast.unparse(piece), piece, function.at))
            if name in self.operator.pattern.numbers:
                tensor = self.scope.tensor(value)
                if tensor.axes or tensor.array.known is None:
                    return None
            values[name] = value
        return values

    def _input(self, expression: Expression, values: Mapping[str, Value]) -> Value:
        """An input, which is one of the values or made of them."""
        if isinstance(expression.tree, ast.Name):
            return values[expression.tree.id]
        return self.scope.reading.expression(expression, values)

    def _attributes(self, values: Mapping[str, Value]) -> dict[str, Any] | None:
        """The operator's attributes, axes still by name; None where a number would be rounded."""
        made: dict[str, Any] = {}
        for name, given in self.operator.attributes.items():
            if not isinstance(given, str) or given in self.operator.pattern.axes:
                made[name] = given
                continue
            numbers = {n: self.scope.tensor(values[n]) for n in self.operator.pattern.numbers}
            known = self.scope.tensor(self.scope.reading.expression(given, numbers)).array.known
            assert known is not None
            if self.scope.emission.real == "float64" and float(np.float32(known)) != float(known):
                return None
            made[name] = float(known)
        return made

    def _named(self, word: str) -> tuple[str, ...]:
        return self.others if word == OTHERS else (self.axes[word],)

    def _laid(self, value: Named[Emitted], words: Sequence[str], first: bool) -> Emitted | None:
        """An input as the operator takes it; None where it has other axes."""
        operations, emission = self.scope.operations, self.scope.emission
        sizes = operations.sizes(value)
        names = [word.rstrip("?") for word in words if word not in ("1", OTHERS)]
        taken = {self.axes[name] for name in names if name in self.axes}
        rest = sorted((a for a in value.axes if a not in taken), key=self.scope.reading.order.__getitem__)
        if OTHERS in words:
            if first:
                self.others = tuple(a for a in value.axes if a not in taken)
            rest = [axis for axis in rest if axis not in self.others]
        unnamed = [name for name in names if name not in self.axes]
        if len(unnamed) != len(rest):
            return None
        self.axes |= dict(zip(unnamed, rest, strict=True))
        self.sizes = {**sizes, **self.sizes}
        axes: list[str | None] = []
        for word in words:
            known = word == "1" or (word.endswith("?") and self.axes[word[:-1]] not in value.axes)
            axes += [None] if known else self._named(word.rstrip("?") if word != OTHERS else word)
        ordered = operations.ordered(value, [axis for axis in axes if axis in value.axes])
        array = emission.reshape(
            ordered.array, [sizes[axis] if axis in value.axes and axis is not None else 1 for axis in axes]
        )
        wanted = [1 if axis is None else self.sizes[axis] for axis in axes]
        if list(array.sizes) == wanted:
            return array
        return emission.graph.node(
            "Expand", [array, emission.lengths.shape(tuple(wanted))], array.type, wanted
        )
