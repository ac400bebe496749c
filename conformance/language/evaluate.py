"""Reading the program: its functions evaluated on named tensors in one arithmetic.

A `Reading` is one way to read: which program (patched or not), which variant, sizes, parameters
and arithmetic, and what of the target's own tensors stands in for the program's. Calls of one
reading share its state, so a prompt in chunks is a sequence of calls.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from conformance.language.arithmetic import Arithmetic
from conformance.language.built_in import BUILT_IN
from conformance.language.errors import Location, PackError, suggestion
from conformance.language.expression import BINARY, COMPARE, UNARY, Expression, parse
from conformance.language.names import STATELESS, Names, Value
from conformance.language.program import Choices, Equation, Function, Parameter, Program, Remembered, holds
from conformance.language.sizes import EXACT, Dimension, Size
from conformance.language.tensors import AxisError, Named, Operations

A = TypeVar("A")

Substitute = Callable[[str, Named[Any]], Named[Any]]
"""Called with a tap's name and the program's tensor; what it returns is used from there on."""

MISTAKES_ONLY = frozenset({"reinterpret"})
"""Functions of the language that the true program may not call."""
REPEAT = "repeat(function, x, …, params='…', times=number)"
FUNCTIONS = frozenset({*BUILT_IN, "repeat"})
"""Names of the functions that the language itself has."""


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


@dataclass
class Invocation(Generic[A]):
    """One call of a function of the program, its arguments evaluated."""

    function: Function
    inputs: dict[str, Value]
    bound: dict[str, str] = field(default_factory=dict)
    params: str = ""
    at: str = ""
    stateless: bool = False


class Scope(Names[A]):
    """One call of a function: its equations evaluated in order, and the calls that they make."""

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
        for name, parameter in function.parameters.items():
            if holds(parameter.when, reading.choices):
                reading.declared[self.params + name] = parameter
        for name, remembered in function.remember.items():
            self.bind(name, self.recall(name, remembered))
        for name in function.given:
            if name in inputs:
                self.bind(name, self.seen(name, inputs[name]))
        for name, given in function.given.items():
            if name not in inputs and given.otherwise is not None:
                self.bind(name, self.seen(name, self.evaluate(given.otherwise)))
        for name in function.given:
            self.reading.noted(f"{self.at}{function.name}.{name}", self.env.get(name))

    def recall(self, name: str, remembered: Remembered) -> Value:
        """What the last call at this site has remembered, else the first value, or None."""
        kept = None if self.site == STATELESS else self.reading.state.get(f"{self.site}:{name}")
        return self.evaluate(remembered.first) if kept is None and remembered.first is not None else kept

    def bind_equation(self, equation: Equation) -> None:
        """Evaluate an equation and give its name to the result, where the variant has it."""
        value = self.equation(equation)
        if value is not None:
            self.bind(equation.name, self.seen(equation.name, value))
            self.reading.noted(f"{self.at}{self.function.name}.{equation.name}", value)

    def equation(self, equation: Equation) -> Value:
        """The value of an equation, or None in a variant that does not have it."""
        expression = equation.pick(self.reading.choices)
        if expression is None:
            return None
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
            return self.value(expression.tree, expression.at)
        except AxisError as error:
            raise PackError(f"{error}, in '{expression}'", expression.at, self.absent(expression)) from None

    def value(self, node: ast.expr, at: Location) -> Value:
        """The value of a piece of an expression."""
        inner = self.reading.inner
        if inner is None and type(node) is ast.Name:
            return self.name(node.id, at)
        made = self.piece(node, at)
        if inner is None or node is self.whole:
            return made
        if self.about and not isinstance(node, ast.Name | ast.Constant):
            self.reading.noted(f"{self.about}:{ast.unparse(node)}", made)
        return made

    def piece(self, node: ast.expr, at: Location) -> Value:
        """The same, as yet unnoted."""
        match node:
            case ast.Name(id=name):
                return self.name(name, at)
            case ast.Constant(value=bool() | float() as constant):
                return self.operations.constant(constant)
            case ast.Constant(value=constant):
                return constant
            case ast.Call(func=ast.Name(id=name)):
                return self.apply(name, node, at)
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(BINARY[type(op)], self.value(left, at), self.value(right, at))
            case ast.UnaryOp(op=op, operand=operand):
                value = self.value(operand, at)
                if isinstance(value, int | Size) and isinstance(op, ast.USub):
                    return -value
                return self.operations.elementwise(UNARY[type(op)], self.tensor(value))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.operations.elementwise(
                    COMPARE[type(op)], self.tensor(self.value(left, at)), self.tensor(self.value(right, at))
                )
        raise PackError(f"'{ast.unparse(node)}' stands where a tensor is needed", at)

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

    def apply(self, name: str, node: ast.Call, at: Location) -> Value:
        """A call of the program's function or of the language's."""
        function = self.reading.program.functions.get(name)
        if function is not None:
            call = self.invocation(function, node.args, node.keywords, at)
            site = self.site_of(f"{name}.{call.params}{call.at}", call)
            return self.enter(call, call.params, call.at, site)
        if name == "repeat":
            return self.repeat(node, at)
        if name not in BUILT_IN:
            known = [*self.reading.program.functions, *FUNCTIONS]
            raise PackError(f"unknown function '{name}'", at, suggestion(name, known))
        return BUILT_IN[name].call(self, node, at)

    def site_of(self, path: str, call: Invocation[A]) -> str:
        """Where the state of a call in this scope lives; a stateless call's calls have none either."""
        return STATELESS if call.stateless or self.site == STATELESS else f"{self.site}/{path}"

    def invocation(
        self,
        function: Function,
        positional: Sequence[ast.expr],
        keywords: Sequence[ast.keyword],
        at: Location,
    ) -> Invocation[A]:
        """The arguments of a call: inputs, `params`, `at` and `state`, and inner axis = outer axis."""
        names = list(function.given)
        if len(positional) > len(names):
            raise PackError(f"{function.name} takes {len(names)} inputs, not {len(positional)}", at)
        call: Invocation[A] = Invocation(function, {})
        for name, node in zip(names, positional, strict=False):
            call.inputs[name] = self.value(node, at)
        for keyword in keywords:
            key = str(keyword.arg)
            match key, keyword.value:
                case "params", ast.Constant(value=str() as text):
                    call.params = f"{text}."
                case "at", ast.Constant(value=str() as text):
                    call.at = f"{text}."
                case "state", ast.Constant(value="none"):
                    call.stateless = True
                case (("params" | "at" | "state"), value):
                    wanted = "'none'" if key == "state" else "a quoted name"
                    raise PackError(f"{key} must be {wanted}, not {ast.unparse(value)}", at)
                case _, value if key in function.given:
                    if key in call.inputs:
                        raise PackError(f"'{key}' is given twice to {function.name}", at)
                    call.inputs[key] = self.value(value, at)
                case _, ast.Name(id=outer) if key in self.reading.program.axes.by_name:
                    call.bound[key] = self.axis(outer, at)
                case _:
                    known = [*function.given, "params", "at", "state", *self.reading.program.axes.by_name]
                    raise PackError(f"{function.name} has no input '{key}'", at, suggestion(key, known))
        for name, given in function.given.items():
            if name not in call.inputs and not given.optional:
                raise PackError(f"'{name}' is not given to {function.name}", at)
        return call

    def enter(self, call: Invocation[A], params: str, at: str, site: str) -> Named[A]:
        """Evaluate a call; `params` and `at` are relative to this scope's own."""
        inputs, sizes = self.inward(call)
        scope = Scope(self.reading, call.function, self.params + params, self.at + at, site, sizes)
        scope.operations = self.operations
        return self.outward(scope.run(inputs), call)

    def inward(self, call: Invocation[A]) -> tuple[dict[str, Value], dict[str, Dimension]]:
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

    def outward(self, result: Named[A], call: Invocation[A]) -> Named[A]:
        """The result of a call under the axis names of this scope."""
        bound = call.bound
        if not bound:
            return result
        return self.operations.relabel(result, {a: bound[a] for a in result.axes if a in bound})

    def repeat(self, node: ast.Call, at: Location) -> Named[A]:
        """`repeat(layer, x, …, params="layers", times=n_layers)`: the output is the next input."""
        own = {k.arg: k.value for k in node.keywords if k.arg in ("times", "same")}
        others = [k for k in node.keywords if k.arg not in own]
        match node.args:
            case [ast.Name(id=name), first, *rest] if "times" in own:
                function = self.reading.program.function(name, at)
            case _:
                raise PackError(f"'{ast.unparse(node)}' is not of the form {REPEAT}", at)
        times = self.value(own["times"], at)
        if not isinstance(times, int):
            raise PackError(f"times must be a whole number, in '{ast.unparse(node)}'", at)
        call = self.invocation(function, [first, *rest], others, at)
        head = next(iter(function.given))
        for i in range(times):
            weights = self.value(own["same"], at) if "same" in own else i
            site = self.site_of(f"{name}.{call.params}{i}", call)
            call.inputs[head] = self.enter(
                call, f"{call.params}{weights}.", f"{call.at or call.params}{i}.", site
            )
        return self.tensor(call.inputs[head])
