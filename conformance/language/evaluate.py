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
from conformance.language.errors import Location, PackError, suggestion
from conformance.language.expression import BINARY, COMPARE, UNARY, Expression, parse
from conformance.language.program import Choices, Equation, Function, Program, holds
from conformance.language.sizes import Dimension, Size
from conformance.language.tensors import AxisError, Named, Operations

A = TypeVar("A")

Value = Any
"""A named tensor, an exact size, None for what does not exist yet, or an axis argument."""

Substitute = Callable[[str, Named[Any]], Named[Any]]
"""Called with a tap's name and the program's tensor; what it returns is used from there on."""

WORDS = {"inf": float("inf"), "pi": 3.141592653589793}
_EXACT = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
}
STATELESS = "-"
"""The site of a call that was made with `state="none"`, and of all calls inside it."""
MISTAKES_ONLY = frozenset({"reinterpret"})


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
    declared: dict[str, tuple[str, ...]] = field(default_factory=dict)
    used: set[tuple[str, str, str]] = field(default_factory=set)

    def call(self, name: str, inputs: Mapping[str, Value]) -> Named[A]:
        """Call a function from outside; `taps` then holds the tensors of this call.

        Inputs are named tensors or exact sizes, by the function's own names; optional ones may be
        missing. Raises `PackError` when the program does not fit them.
        """
        self.taps = {}
        function = self.program.function(name)
        scope = _Scope(self, function, "", "", "", dict(self.sizes))
        return scope.run(dict(inputs))

    def expression(self, text: str | Expression, names: Mapping[str, Value]) -> Value:
        """An expression of the pack outside of any function, over the tensors in `names`."""
        parsed = text if isinstance(text, Expression) else parse(text)
        outside = Function("", {}, {}, {}, (), Equation("is", {"": parsed}), (), parsed.at)
        scope = _Scope(self, outside, "", "", "", dict(self.sizes))
        for name, value in names.items():
            scope.bind(name, value)
        return scope.evaluate(parsed)


class _Scope(Generic[A]):
    """One call: what its names mean. `params`, `at` and `site` prefix parameters, taps and state."""

    def __init__(
        self, reading: Reading[A], function: Function, params: str, at: str, site: str,
        sizes: dict[str, Dimension],
    ) -> None:
        self.reading, self.function = reading, function
        self.params, self.at, self.site, self.sizes = params, at, site, sizes
        self.operations = Operations(reading.arithmetic)
        self.env: dict[str, Value] = {}

    # -- one call -------------------------------------------------------------------------------

    def run(self, inputs: dict[str, Value]) -> Named[A]:
        function, reading = self.function, self.reading
        for name, parameter in function.parameters.items():
            if holds(parameter.when, reading.choices):
                reading.declared[self.params + name] = parameter.axes
        for name, remembered in function.remember.items():
            value = reading.state.get(f"{self.site}:{name}") if self.site != STATELESS else None
            if value is None and remembered.first is not None:
                value = self.evaluate(remembered.first)
            self.env[name] = value
        for name, given in function.given.items():
            if name in inputs:
                self.bind(name, self.seen(name, inputs[name]))
            elif given.otherwise is None:
                raise PackError(f"'{name}' is not given to {function.name}", function.at)
        for name, given in function.given.items():
            if name not in inputs and given.otherwise is not None:
                self.bind(name, self.evaluate(given.otherwise))
        for equation in function.let:
            self.bind_equation(equation)
        result = self.equation(function.result)
        if result is None:
            raise PackError(f"{function.name} has no result in this variant", function.result.at)
        for name, remembered in function.remember.items():
            if self.site != STATELESS:
                reading.state[f"{self.site}:{name}"] = self.evaluate(remembered.value)
        return self.tensor(result)

    def bind_equation(self, equation: Equation) -> None:
        value = self.equation(equation)
        if value is not None:
            self.bind(equation.name, self.seen(equation.name, value))

    def equation(self, equation: Equation) -> Value:
        expression = equation.pick(self.reading.choices)
        if expression is None:
            return None
        if equation.by:
            value = self.reading.choices.get(equation.by)
            self.reading.used.add((self.function.name, equation.name, str(value)))
        if not equation.at_least_float32:
            return self.evaluate(expression)
        self.operations = Operations(self.reading.arithmetic.widened())
        try:
            return self.evaluate(expression)
        finally:
            self.operations = Operations(self.reading.arithmetic)

    def seen(self, name: str, value: Value) -> Value:
        """Record a tensor that is known outside, and let the reading substitute it."""
        if not self.reading.program.tap(self.function.name, name) or value is None:
            return value
        tensor = self.reading.substitute(self.at + name, self.tensor(value))
        self.reading.taps[self.at + name] = tensor
        return tensor

    def bind(self, name: str, value: Value) -> None:
        self.env[name] = value
        if isinstance(value, Named):
            self.sizes.update(self.operations.sizes(value))

    def tensor(self, value: Value) -> Named[A]:
        if isinstance(value, Named):
            return value
        if isinstance(value, Size):
            raise AxisError(f"the size {value} stands where a tensor is needed")
        return self.operations.constant(value)

    # -- expressions ----------------------------------------------------------------------------

    def evaluate(self, expression: Expression) -> Value:
        try:
            return self.value(expression.tree, expression.at)
        except AxisError as error:
            raise PackError(f"{error}, in '{expression}'", expression.at) from None

    def value(self, node: ast.expr, at: Location) -> Value:
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
                    COMPARE[type(op)], self.real(self.value(left, at)), self.real(self.value(right, at))
                )
        raise PackError(f"'{ast.unparse(node)}' stands where a tensor is needed", at)

    def real(self, value: Value) -> Named[A]:
        """As `tensor`, but a symbolic size may take part: its value does not matter there."""
        return self.operations.constant(0) if isinstance(value, Size) else self.tensor(value)

    def binary(self, name: str, left: Value, right: Value) -> Value:
        exact = isinstance(left, int | Size) and isinstance(right, int | Size)
        if exact and name in _EXACT:
            return _EXACT[name](left, right)
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
        return self.operations.elementwise(name, self.real(left), self.real(right))

    def name(self, name: str, at: Location) -> Value:
        if name in self.env:
            return self.env[name]
        function, reading = self.function, self.reading
        if name in function.parameters:
            if not holds(function.parameters[name].when, reading.choices):
                return 0
            full = self.params + name
            if full not in reading.parameters:
                raise PackError(f"there is no parameter '{full}'", at, suggestion(full, reading.parameters))
            return reading.parameters[full]
        if name in reading.program.axes.by_symbol:
            return self.size(reading.program.axes.by_symbol[name], at)
        if name in WORDS:
            return self.operations.constant(WORDS[name])
        if name in reading.numbers:
            value = reading.numbers[name]
            return value if isinstance(value, int | Size) else self.operations.constant(value)
        if name in reading.choices:
            value = reading.choices[name]
            if isinstance(value, str):
                return self.evaluate(parse(value, at))
            return value if isinstance(value, int) else self.operations.constant(value)
        known = [*self.env, *function.parameters, *reading.program.axes.by_symbol, *reading.numbers]
        known += [e.name for e in function.let]
        late = any(e.name == name for e in function.let)
        hint = "it is defined further down, or not in this variant" if late else suggestion(name, known)
        raise PackError(f"unknown tensor '{name}'", at, hint)

    def size(self, axis: str, at: Location) -> Dimension:
        for value in reversed(self.env.values()):
            if isinstance(value, Named) and axis in value.axes:
                return self.operations.size(value, axis)
        known = self.known_size(axis)
        if known is None:
            raise PackError(f"the size of axis '{axis}' is not known here", at)
        return known

    def known_size(self, axis: str) -> Dimension | None:
        """The size of an axis in this scope, or None."""
        fixed = self.reading.program.axes.by_name[axis].size if axis in self.reading.program.axes.by_name else None
        return fixed if fixed is not None else self.sizes.get(axis)

    # -- calls ----------------------------------------------------------------------------------

    def apply(self, name: str, node: ast.Call, at: Location) -> Value:
        if name == "repeat":
            return self.repeat(node, at)
        if name in self.reading.program.functions:
            return self.call(name, node, at)
        operation = getattr(self, f"do_{name}", None)
        if operation is None:
            known = [*self.reading.program.functions, *BUILT_IN]
            raise PackError(f"unknown function '{name}'", at, suggestion(name, known))
        return operation(node, at)

    def call(self, name: str, node: ast.Call, at: Location) -> Named[A]:
        function = self.reading.program.function(name, at)
        keywords = [k for k in node.keywords if k.arg != "state"]
        params, tap, inputs, bound = self.arguments(function, node.args, keywords, at)
        site = self.site_of(f"{name}.{params}{tap}")
        if len(keywords) < len(node.keywords):
            site = STATELESS
        return self.enter(function, inputs, bound, self.params + params, self.at + tap, site)

    def site_of(self, call: str) -> str:
        """Where the state of a call in this scope lives; a stateless call's calls have none either."""
        return STATELESS if self.site == STATELESS else f"{self.site}/{call}"

    def arguments(
        self, function: Function, positional: Sequence[ast.expr], keywords: Sequence[ast.keyword], at: Location
    ) -> tuple[str, str, dict[str, Value], dict[str, str]]:
        """Prefix of parameters and taps, inputs by name, and inner axis -> outer axis."""
        names = list(function.given)
        if len(positional) > len(names):
            raise PackError(f"{function.name} takes {len(names)} inputs, not {len(positional)}", at)
        inputs = {n: self.value(a, at) for n, a in zip(names, positional, strict=False)}
        params = tap = ""
        bound: dict[str, str] = {}
        for keyword in keywords:
            key = str(keyword.arg)
            match key, keyword.value:
                case ("params" | "at"), ast.Constant(value=str() as text):
                    params, tap = (f"{text}.", tap) if key == "params" else (params, f"{text}.")
                case _, value if key in function.given:
                    inputs[key] = self.value(value, at)
                case _, ast.Name(id=outer) if key in self.reading.program.axes.by_name:
                    bound[key] = self.axis(outer, at)
                case _:
                    known = [*function.given, "params", "at"]
                    raise PackError(f"{function.name} has no input '{key}'", at, suggestion(key, known))
        return params, tap, inputs, bound

    def enter(
        self, function: Function, inputs: dict[str, Value], bound: Mapping[str, str],
        params: str, at: str, site: str,
    ) -> Named[A]:
        operations = self.operations
        inner = {outer: name for name, outer in bound.items()}

        def inward(value: Value) -> Value:
            if not isinstance(value, Named):
                return value
            return operations.relabel(value, {a: inner[a] for a in value.axes if a in inner})

        inputs = {name: inward(value) for name, value in inputs.items()}
        sizes = {axis: size for axis, size in self.sizes.items() if axis not in bound}
        sizes.update({name: self.sizes[outer] for name, outer in bound.items() if outer in self.sizes})
        scope = _Scope(self.reading, function, params, at, site, sizes)
        scope.operations = operations
        result = scope.run(inputs)
        return operations.relabel(result, {a: bound[a] for a in result.axes if a in bound})

    def repeat(self, node: ast.Call, at: Location) -> Named[A]:
        """`repeat(layer, x, …, params="layers", times=n_layers)`: the output is the next input."""
        match node.args:
            case [ast.Name(id=name), first, *rest]:
                pass
            case _:
                raise PackError("repeat(function, x, …, params='…', times=…)", at)
        function = self.reading.program.function(name, at)
        own = {k.arg: k.value for k in node.keywords if k.arg in ("times", "same")}
        others = [k for k in node.keywords if k.arg not in own]
        if "times" not in own:
            raise PackError("repeat needs times=…", at)
        times = self.value(own["times"], at)
        params, tap, inputs, bound = self.arguments(function, [first, *rest], others, at)
        head = next(iter(function.given))
        for i in range(times if isinstance(times, int) else 1):
            weights = self.value(own["same"], at) if "same" in own else i
            inputs[head] = self.enter(
                function, inputs, bound, f"{self.params}{params}{weights}.",
                f"{self.at}{tap or params}{i}.", self.site_of(f"{name}.{params}{i}"),
            )
        return self.tensor(inputs[head])

    # -- built-in functions ---------------------------------------------------------------------

    def axis(self, name: str, at: Location) -> str:
        axes = self.reading.program.axes.by_name
        if name not in axes:
            raise PackError(f"unknown axis '{name}'", at, suggestion(name, axes))
        return name

    def axes_of(self, node: ast.expr | None, at: Location) -> tuple[str, ...]:
        match node:
            case ast.Name(id=name):
                return (self.axis(name, at),)
            case ast.Tuple(elts=elements):
                return tuple(self.axis(e.id, at) for e in elements if isinstance(e, ast.Name))
        raise PackError("an axis, or several in parentheses, is needed", at)

    def positional(self, node: ast.Call, count: int, at: Location) -> list[Named[A]]:
        if len(node.args) != count:
            raise PackError(f"'{ast.unparse(node)}' needs {count} tensors", at)
        return [self.tensor(self.value(argument, at)) for argument in node.args]

    def keywords(self, node: ast.Call, at: Location, *names: str) -> list[ast.expr]:
        found = {str(k.arg): k.value for k in node.keywords}
        if set(found) != set(names):
            raise PackError(f"'{ast.unparse(node)}' needs {', '.join(f'{n}=…' for n in names)}", at)
        return [found[name] for name in names]

    def one_axis_keyword(self, node: ast.Call, at: Location) -> tuple[str, ast.expr]:
        if len(node.keywords) != 1 or node.keywords[0].arg is None:
            raise PackError(f"'{ast.unparse(node)}' needs one axis=…", at)
        return self.axis(node.keywords[0].arg, at), node.keywords[0].value

    def do_dot(self, node: ast.Call, at: Location) -> Named[A]:
        x, y = self.positional(node, 2, at)
        (over,) = self.keywords(node, at, "over")
        return self.operations.dot(x, y, self.axes_of(over, at))

    def reduction(self, name: str, node: ast.Call, at: Location) -> Named[A]:
        (x,) = self.positional(node, 1, at)
        (over,) = self.keywords(node, at, "over")
        return self.operations.reduce(name, x, self.axes_of(over, at))

    def do_sum(self, node: ast.Call, at: Location) -> Named[A]:
        return self.reduction("sum", node, at)

    def do_max(self, node: ast.Call, at: Location) -> Named[A]:
        return self.reduction("max", node, at)

    def do_any(self, node: ast.Call, at: Location) -> Named[A]:
        return self.reduction("any", node, at)

    def do_all(self, node: ast.Call, at: Location) -> Named[A]:
        return self.reduction("all", node, at)

    def do_mean(self, node: ast.Call, at: Location) -> Named[A]:
        (x,) = self.positional(node, 1, at)
        (over,) = self.keywords(node, at, "over")
        axes = self.axes_of(over, at)
        total = self.operations.reduce("sum", x, axes)
        return self.operations.elementwise("divide", total, self.real(self.operations.count(x, axes)))

    def do_cumsum(self, node: ast.Call, at: Location) -> Named[A]:
        (x,) = self.positional(node, 1, at)
        (over,) = self.keywords(node, at, "over")
        return self.operations.cumulative_sum(x, self.axes_of(over, at)[0])

    def do_where(self, node: ast.Call, at: Location) -> Named[A]:
        return self.operations.elementwise("where", *self.positional(node, 3, at))

    def do_index(self, node: ast.Call, at: Location) -> Named[A]:
        (axis,) = self.axes_of(node.args[0] if node.args else None, at)
        return self.operations.index(axis, self.size(axis, at))

    def do_size(self, node: ast.Call, at: Location) -> Dimension:
        (axis,) = self.axes_of(node.args[0] if node.args else None, at)
        return self.size(axis, at)

    def do_range(self, node: ast.Call, at: Location) -> Named[A]:
        (over,) = self.keywords(node, at, "over")
        count = self.value(node.args[0], at)
        return self.operations.index(self.axes_of(over, at)[0], count)

    def do_take(self, node: ast.Call, at: Location) -> Named[A]:
        (x,) = self.positional(node, 1, at)
        axis, indices = self.one_axis_keyword(node, at)
        return self.operations.take(x, axis, self.tensor(self.value(indices, at)))

    def do_last(self, node: ast.Call, at: Location) -> Named[A]:
        count, over = self.keywords(node, at, "count", "over")
        (x,) = self.positional(node, 1, at)
        return self.operations.last(x, self.value(count, at), self.axes_of(over, at)[0])

    def do_split(self, node: ast.Call, at: Location) -> Named[A]:
        (x,) = self.positional(node, 1, at)
        axis, into = self.one_axis_keyword(node, at)
        return self.operations.split(x, axis, self.axes_of(into, at), self.known_size)

    def do_merge(self, node: ast.Call, at: Location) -> Named[A]:
        x = self.tensor(self.value(node.args[0], at))
        (into,) = self.keywords(node, at, "into")
        return self.operations.merge(x, self.axes_of(node.args[1], at), self.axes_of(into, at)[0])

    def do_stack(self, node: ast.Call, at: Location) -> Named[A]:
        (over,) = self.keywords(node, at, "over")
        tensors = self.positional(node, len(node.args), at)
        return self.operations.stack(tensors, self.axes_of(over, at)[0])

    def do_join(self, node: ast.Call, at: Location) -> Named[A]:
        (into,) = self.keywords(node, at, "into")
        past = self.value(node.args[0], at)
        x = self.tensor(self.value(node.args[1], at))
        return self.operations.join(past, x, "context", self.axes_of(into, at)[0])

    def do_relabel(self, node: ast.Call, at: Location) -> Named[A]:
        (x,) = self.positional(node, 1, at)
        names = {self.axis(str(k.arg), at): self.axes_of(k.value, at)[0] for k in node.keywords}
        return self.operations.relabel(x, names)

    def do_reinterpret(self, node: ast.Call, at: Location) -> Named[A]:
        (x,) = self.positional(node, 1, at)
        order, into = (self.axes_of(value, at) for value in self.keywords(node, at, "order", "into"))
        # Where a tensor's own axis reappears its size is the tensor's; a flattened axis is its parts'.
        own = self.operations.sizes(x)
        total = self.operations.count(x, order)
        sizes = [own[a] if a in own else self.known_size(a) for a in into]
        rest = 1
        for size in sizes:
            rest = rest if size is None else rest * size
        filled = [total // rest if size is None else size for size in sizes]
        return self.operations.reinterpret(x, order, into, filled)


def _elementwise(name: str, count: int) -> Callable[[Any, ast.Call, Location], Named[Any]]:
    def do(scope: _Scope[Any], node: ast.Call, at: Location) -> Named[Any]:
        return scope.operations.elementwise(name, *scope.positional(node, count, at))

    return do


for _name in ("exp", "log", "sqrt", "sin", "cos", "tanh", "erf", "abs", "finite"):
    setattr(_Scope, f"do_{_name}", _elementwise(_name, 1))
for _name in ("maximum", "minimum"):
    setattr(_Scope, f"do_{_name}", _elementwise(_name, 2))

BUILT_IN = frozenset(n[3:] for n in dir(_Scope) if n.startswith("do_")) | {"repeat"}
"""Names of the functions that the language itself has."""
