"""Reading the program: its functions evaluated on named tensors in one arithmetic.

A `Reading` is one way to read: which program (patched or not), which variant, sizes, parameters
and arithmetic, and what of the target's own tensors stands in for the program's. Calls of one
reading share its state, so a prompt in chunks is a sequence of calls.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from conformance.language.arithmetic import Arithmetic
from conformance.language.built_in import BUILT_IN
from conformance.language.errors import PackError
from conformance.language.expression import Expression, parse
from conformance.language.names import STATELESS, Names, Value
from conformance.language.pieces import Invocation, piece
from conformance.language.program import Choices, Equation, Function, Parameter, Program, Remembered, holds
from conformance.language.sizes import EXACT, Dimension, Size
from conformance.language.tensors import AxisError, Named, Operations

A = TypeVar("A")

Substitute = Callable[[str, Named[Any]], Named[Any]]
"""Called with a tap's name and the program's tensor; what it returns is used from there on."""


def keep(_: str, tensor: Named[A]) -> Named[A]:
    """The substitute that changes nothing."""
    return tensor


@dataclass
class Reading(Generic[A]):
    """One reading of the program; see the module. `sizes` are those that the config fixes."""

    program: Program
    choices: Choices
    sizes: Mapping[str, Dimension]
    parameters: Mapping[str, Named[A]]
    arithmetic: Arithmetic[A]
    substitute: Substitute = keep
    numbers: Mapping[str, float] = field(default_factory=dict)
    state: dict[str, Value] = field(default_factory=dict)
    taps: dict[str, Named[A]] = field(default_factory=dict)
    keep_taps: bool = True
    declared: dict[str, Parameter] = field(default_factory=dict)
    inner: dict[str, Named[A]] | None = None
    counted: dict[str, int] = field(default_factory=dict)
    """How often each place of `inner` was noted in this call."""
    entered: set[str] = field(default_factory=set)
    there: dict[str, dict[str, Parameter]] = field(default_factory=dict)
    """The parameters that each function has in this variant, as far as it was called."""

    def present(self, function: Function) -> dict[str, Parameter]:
        """The parameters that a function has in this variant."""
        if function.name not in self.there:
            self.there[function.name] = {
                name: parameter
                for name, parameter in function.parameters.items()
                if holds(parameter.when, self.choices)
            }
        return self.there[function.name]

    def noted(self, place: str, value: Value) -> None:
        """Keep a tensor that has no name outside, where that is wanted (`inner` is a dictionary).

        The same equation at the same place, evaluated again, is another entry: `rope.angle~2`.
        A piece of an equation has the piece in its name: `rope.turned:a * cos(angle)~1`.
        """
        if self.inner is None or not isinstance(value, Named):
            return
        self.counted[place] = self.counted.get(place, 0) + 1
        self.inner[f"{place}~{self.counted[place]}"] = value

    def call(self, name: str, inputs: Mapping[str, Value]) -> Named[A]:
        """Call a function from outside; `taps` then holds the tensors of this call.

        Inputs are named tensors or exact sizes, by the function's own names; optional ones may be
        missing. Raises `PackError` when the program does not fit them.
        """
        self.taps, self.counted = {}, {}
        function = self.program.function(name)
        for given in function.given:
            if given not in inputs and not function.given[given].optional:
                raise PackError(f"'{given}' is not given to {name}", function.at)
        return Scope(self, function, "", "", "", dict(self.sizes)).run(dict(inputs))

    def expression(self, text: str | Expression, names: Mapping[str, Value]) -> Value:
        """An expression of the pack outside of any function, over the tensors in `names`."""
        parsed = text if isinstance(text, Expression) else parse(text)
        outside = Function("", {}, {}, {}, (), Equation("is", {"": parsed}), (), parsed.at)
        scope = Scope(self, outside, "", "", "", dict(self.sizes))
        for name, value in names.items():
            scope.bind(name, value)
        return scope.evaluate(parsed)


class Scope(Names[A]):
    """One call of a function: its equations evaluated in order, and the calls that they make."""

    built_in = BUILT_IN
    """The functions of the language."""
    about = ""
    """The equation that is being evaluated, where its pieces are noted."""
    whole: ast.expr | None = None
    """All of it, which is no piece."""

    # -- one call -------------------------------------------------------------------------------

    def run(self, inputs: Mapping[str, Value]) -> Named[A]:
        """The function's result; its state is remembered, its tensors are seen."""
        self.reading.entered.add(self.function.name)
        self.begin(inputs)
        for equation in self.function.let:
            self.bind_equation(equation)
        result = self.result()
        self.remember()
        return result

    def begin(self, inputs: Mapping[str, Value]) -> None:
        """Declare parameters, recall state, bind inputs and then the defaults of those left out."""
        function, reading = self.function, self.reading
        for name, parameter in reading.present(function).items():
            reading.declared[self.params + name] = parameter
        for name, remembered in function.remember.items():
            self.bind(name, self.recall(name, remembered))
        for name in function.given:
            if name in inputs:
                self.bind(name, self.seen(name, inputs[name]))
        for name, given in function.given.items():
            if name not in inputs and given.otherwise is not None:
                self.bind(name, self.seen(name, self.evaluate(given.otherwise)))
        if reading.inner is not None:
            for name in function.given:
                reading.noted(f"{self.at}{function.name}.{name}", self.env.get(name))

    def recall(self, name: str, remembered: Remembered) -> Value:
        """What the last call at this site has remembered, else the first value, or None."""
        kept = None if self.site == STATELESS else self.reading.state.get(f"{self.site}:{name}")
        return self.evaluate(remembered.first) if kept is None and remembered.first is not None else kept

    def bind_equation(self, equation: Equation) -> None:
        """Evaluate an equation and give its name to the result, where the variant has it."""
        value = self.equation(equation)
        if value is not None:
            self.bind(equation.name, self.seen(equation.name, value))
            if self.reading.inner is not None:
                self.reading.noted(f"{self.at}{self.function.name}.{equation.name}", value)

    def equation(self, equation: Equation) -> Value:
        """The value of an equation, or None in a variant that does not have it."""
        expression = equation.pick(self.reading.choices)
        if expression is None:
            return None
        if self.reading.inner is not None:
            self.about, self.whole = f"{self.at}{self.function.name}.{equation.name}", expression.tree
        if not equation.at_least_float32:
            return self.evaluate(expression)
        narrow = self.operations
        self.operations = Operations(narrow.arithmetic.widened())
        try:
            return self.evaluate(expression)
        finally:
            self.operations = narrow

    def result(self) -> Named[A]:
        """What the function returns."""
        equation = self.function.result
        value = self.equation(equation)
        if value is None:
            raise PackError(f"{self.function.name} has no result in this variant", equation.at)
        if self.reading.inner is not None:
            self.reading.noted(f"{self.at}{self.function.name}.{equation.name}", value)
        return self.tensor(value)

    def remember(self) -> None:
        """Keep the function's state for the next call at this site."""
        if self.site != STATELESS:
            for name, remembered in self.function.remember.items():
                self.reading.state[f"{self.site}:{name}"] = self.evaluate(remembered.value)

    def seen(self, name: str, value: Value) -> Value:
        """Record a tensor that is known outside, and let the reading substitute it."""
        if not self.reading.program.tap(self.function.name, name) or value is None:
            return value
        tensor = self.reading.substitute(self.at + name, self.tensor(value))
        if self.reading.keep_taps:
            self.reading.taps[self.at + name] = tensor
        if self.reading.inner is not None:
            self.reading.inner[self.at + name] = tensor
        return tensor

    # -- expressions ----------------------------------------------------------------------------

    def evaluate(self, expression: Expression) -> Value:
        """The value of an expression in this scope. Raises `PackError` where it has none."""
        try:
            return piece(expression.tree, expression.at, self.reading.inner is not None)(self)
        except AxisError as error:
            raise PackError(f"{error}, in '{expression}'", expression.at, self.absent(expression)) from None

    def binary(self, name: str, left: Value, right: Value) -> Value:
        """A binary operator; exact on sizes, and without effect where a side is neutral."""
        if name in EXACT and isinstance(left, int | Size) and isinstance(right, int | Size):
            if name in ("floor_divide", "remainder") and right == 0:
                raise AxisError(f"{left} is divided by 0")
            return EXACT[name](left, right)
        if name == "add" and isinstance(left, int) and left == 0:
            return right
        if name in ("add", "subtract") and isinstance(right, int) and right == 0:
            return left
        if name == "multiply" and isinstance(left, int) and left == 1:
            return right
        if name == "power" and isinstance(right, int) and right in (2, 3) and isinstance(left, Named):
            # Products round once each; a general power would not.
            result = self.operations.elementwise("multiply", left, left)
            return result if right == 2 else self.operations.elementwise("multiply", result, left)
        return self.operations.elementwise(name, self.tensor(left), self.tensor(right))

    # -- calls ----------------------------------------------------------------------------------

    def site_of(self, path: str, call: Invocation) -> str:
        """Where the state of a call in this scope lives; a stateless call's calls have none either."""
        return STATELESS if call.stateless or self.site == STATELESS else f"{self.site}/{path}"

    def enter(self, call: Invocation, params: str, at: str, site: str) -> Named[A]:
        """Evaluate a call; `params` and `at` are relative to this scope's own."""
        inputs, sizes = self.inward(call)
        scope = Scope(self.reading, call.function, self.params + params, self.at + at, site, sizes)
        scope.operations = self.operations
        return self.outward(scope.run(inputs), call)

    def inward(self, call: Invocation) -> tuple[dict[str, Value], dict[str, Dimension]]:
        """Inputs and sizes of a call under the axis names that the function has inside."""
        if not call.bound:
            return dict(call.inputs), dict(self.sizes)
        inner = {outer: name for name, outer in call.bound.items()}
        inputs = {
            name: self.operations.relabel(value, {a: inner[a] for a in value.axes if a in inner})
            if isinstance(value, Named)
            else value
            for name, value in call.inputs.items()
        }
        sizes = {axis: size for axis, size in self.sizes.items() if axis not in call.bound}
        sizes.update({name: self.sizes[outer] for name, outer in call.bound.items() if outer in self.sizes})
        return inputs, sizes

    def outward(self, result: Named[A], call: Invocation) -> Named[A]:
        """The result of a call under the axis names of this scope."""
        bound = call.bound
        if not bound:
            return result
        return self.operations.relabel(result, {a: bound[a] for a in result.axes if a in bound})
