"""Sizes that are known only when a graph runs, computed in the graph from the shapes of its inputs."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm

import numpy as np

from conformance.exporting.graph import Graph, Value
from conformance.language.sizes import Dimension, Size


@dataclass
class Lengths:
    """Each symbol is worked out once; `sources` say how, by the name of the symbol."""

    graph: Graph
    sources: dict[str, Callable[[], Value]] = field(default_factory=dict)

    def of_axis(self, symbol: str, value: Value, axis: int) -> None:
        """A symbol is the size of an axis of an input."""
        self.sources[symbol] = lambda: self.extent(value, axis)

    def extent(self, value: Value, axis: int) -> Value:
        """The size of an axis of a value, as a whole number without axes."""
        shape = self.graph.node("Shape", [value], "int64", (len(value.sizes),))
        return self.graph.node("Gather", [shape, whole(axis)], "int64", (), axis=0)

    def value(self, size: Dimension) -> Value:
        """A size as a whole number without axes."""
        if isinstance(size, int):
            return whole(size)
        place, self.graph.place = self.graph.place, "sizes"
        try:
            return self._sum(size)
        finally:
            self.graph.place = place

    def _sum(self, size: Size) -> Value:
        """A polynomial: over one denominator, since only the whole is sure to be a whole number."""
        under = lcm(*(Fraction(c).denominator for _, c in size.terms))
        powers: dict[str, int] = {}
        for monomial, _ in size.terms:
            for name, power in monomial:
                powers[name] = max(powers.get(name, 0), -power)
        total: Value | None = None
        for monomial, coefficient in size.terms:
            factor = int(coefficient * under)
            exponents = dict(monomial)
            term = whole(factor)
            for name in dict.fromkeys([*exponents, *powers]):
                for _ in range(exponents.get(name, 0) + powers.get(name, 0)):
                    term = self._binary("Mul", term, self._symbol(name))
            total = term if total is None else self._binary("Add", total, term)
        assert total is not None
        for name, power in powers.items():
            for _ in range(power):
                total = self._binary("Div", total, self._symbol(name))
        return total if under == 1 else self._binary("Div", total, whole(under))

    def _symbol(self, name: str) -> Value:
        """A symbol: the size of an input, or a quotient or remainder that is a name of its own."""
        if name in self.sources:
            return self.sources[name]()
        return self._written(ast.parse(name, mode="eval").body)

    def _written(self, node: ast.expr) -> Value:
        """A size as its text says it."""
        match node:
            case ast.Name(id=name):
                return self._symbol(name)
            case ast.Constant(value=int() as number):
                return whole(number)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._binary("Sub", whole(0), self._written(operand))
            case ast.BinOp(left=left, op=op, right=right):
                operators = {
                    ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Div: "Div", ast.FloorDiv: "Div", ast.Mod: "Mod",
                }  # fmt: skip
                return self._binary(operators[type(op)], self._written(left), self._written(right))
        raise AssertionError(f"no size: {ast.unparse(node)}")

    def _binary(self, operator: str, left: Value, right: Value) -> Value:
        """Sizes are not negative, so that a quotient needs no floor."""
        if operator == "Mul" and any(v.known is not None and int(v.known) == 1 for v in (left, right)):
            return right if left.known is not None and int(left.known) == 1 else left
        return self.graph.node(operator, [left, right], "int64", ())

    def shape(self, sizes: tuple[Dimension, ...]) -> Value:
        """Sizes as a list, as Reshape and Expand take them."""
        if all(isinstance(size, int) for size in sizes):
            return self.graph.integers(*(size for size in sizes if isinstance(size, int)))
        parts = []
        for size in sizes:
            if isinstance(size, int):
                parts.append(self.graph.integers(size))
            else:
                number = self.value(size)
                parts.append(self.graph.node("Unsqueeze", [number, self.graph.integers(0)], "int64", (1,)))
        return self.graph.node("Concat", parts, "int64", (len(sizes),), axis=0)


def whole(number: int) -> Value:
    """A whole number without axes."""
    return Value("", "int64", (), np.asarray(number, np.int64))
