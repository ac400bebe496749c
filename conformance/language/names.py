"""What a name means inside one call: of the call first, then of the pack."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from conformance.language.errors import Location, PackError, suggestion
from conformance.language.expression import Expression, parse
from conformance.language.program import Function, holds, key_of
from conformance.language.sizes import Dimension, Size
from conformance.language.tensors import AxisError, Named, Operations

if TYPE_CHECKING:
    from conformance.language.evaluate import Reading

A = TypeVar("A")

Value = Any
"""A named tensor, an exact size, or None for what was not remembered yet."""

WORDS = {"inf": float("inf"), "pi": 3.141592653589793}
_ABSENT = object()
STATELESS = "-"
"""The site of a call that was made with `state="none"`, and of all calls inside it."""


@lru_cache(maxsize=4096)
def _names_of(node: ast.expr) -> tuple[str, ...]:
    """A name, or several in parentheses; none of what is written otherwise."""
    match node:
        case ast.Name(id=name):
            return (name,)
        case ast.Tuple(elts=elements):
            names = tuple(element.id for element in elements if isinstance(element, ast.Name))
            return names if len(names) == len(elements) else ()
    return ()


class Names(Generic[A]):
    """The names of one call. `params`, `at` and `site` prefix its parameters, taps and state."""

    def __init__(
        self,
        reading: Reading[A],
        function: Function,
        params: str,
        at: str,
        site: str,
        sizes: dict[str, Dimension],
    ) -> None:
        self.reading, self.function = reading, function
        self.params, self.at, self.site, self.sizes = params, at, site, sizes
        self.operations = Operations(reading.arithmetic)
        self.env: dict[str, Value] = {}

    def bind(self, name: str, value: Value) -> None:
        """Give a value its name; the sizes of its axes are those of this scope from now on."""
        self.env[name] = value
        if isinstance(value, Named):
            self.sizes.update(zip(value.axes, self.operations.arithmetic.shape(value.array), strict=True))

    def evaluate(self, expression: Expression) -> Value:
        """The value of an expression under these names."""
        raise NotImplementedError

    def tensor(self, value: Value) -> Named[A]:
        """A value as a tensor; raises `AxisError` for what is none."""
        if isinstance(value, Named):
            return value
        if isinstance(value, int | float | Size):
            return self.operations.constant(value)
        if value is None:
            raise AxisError("nothing is remembered before the first call: only join can take that")
        raise AxisError(f"the text {value!r} stands where a tensor is needed")

    def name(self, name: str, at: Location) -> Value:
        """What a name means here: of this call first, then of the pack."""
        value = self.env.get(name, _ABSENT)
        if value is not _ABSENT:
            return value
        function, reading = self.function, self.reading
        if name in function.parameters:
            if not holds(function.parameters[name].when, reading.choices):
                return 0
            return self.parameter(name, at)
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
        raise PackError(f"unknown tensor '{name}'", at, self.instead(name))

    def instead(self, name: str) -> str:
        """A hint for an unknown name: where it is, or what it may have been meant to be."""
        function, reading = self.function, self.reading
        equation = function.equation(name)
        if equation is not None and equation.pick(reading.choices) is not None:
            return "it is defined further down"
        if equation is not None:
            return f"it does not exist where {equation.by} is {key_of(reading.choices.get(equation.by))}"
        known = [*self.env, *function.given, *function.parameters, *(e.name for e in function.let)]
        known += [*reading.program.axes.by_symbol, *WORDS, *reading.numbers, *reading.choices]
        return suggestion(name, known)

    def parameter(self, name: str, at: Location) -> Value:
        """A parameter of this function, which the variant has."""
        full = self.params + name
        if full not in self.reading.parameters:
            raise PackError(f"there is no parameter '{full}'", at, suggestion(full, self.reading.parameters))
        return self.reading.parameters[full]

    def size(self, axis: str, at: Location) -> Dimension:
        """The size of an axis here, which must be known."""
        known = self.known_size(axis)
        if known is None:
            raise PackError(f"the size of axis '{axis}' is not known here", at)
        return known

    def known_size(self, axis: str) -> Dimension | None:
        """The size of an axis: its fixed length, that of the tensor bound last, the caller's; or None."""
        declared = self.reading.program.axes.by_name.get(axis)
        if declared is not None and declared.size is not None:
            return declared.size
        return self.sizes.get(axis)

    def axis(self, name: str, at: Location) -> str:
        """The name of an axis, which must be one of the pack."""
        axes = self.reading.program.axes.by_name
        if name not in axes:
            raise PackError(f"unknown axis '{name}'", at, suggestion(name, axes))
        return name

    def axes_of(self, node: ast.expr, at: Location) -> tuple[str, ...]:
        """An axis, or several in parentheses, as an argument names them."""
        names = _names_of(node)
        if not names:
            raise PackError(f"an axis, or several in parentheses, is needed, not '{ast.unparse(node)}'", at)
        return tuple(self.axis(name, at) for name in names)

    def absent(self, expression: Expression) -> str:
        """A hint where an expression mentions parameters that are 0 in this variant."""
        for node in ast.walk(expression.tree):
            if isinstance(node, ast.Name) and node.id in self.function.parameters and node.id not in self.env:
                when = self.function.parameters[node.id].when
                for name, values in when.items():
                    if key_of(self.reading.choices.get(name)) not in values:
                        return f"'{node.id}' is 0 where {name} is {key_of(self.reading.choices.get(name))}"
        return ""
