"""Functions of a program recognised by their equations, whatever their names are."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from conformance.language.expression import Expression
from conformance.language.program import Choices, Function, Program


@dataclass(frozen=True)
class Pattern:
    """Equations in which the names of `tensors`, `numbers` and `axes` stand for any; see `operators.yaml`.

    `axes` has the symbol of each axis's size, or ''.
    """

    tensors: tuple[str, ...]
    numbers: tuple[str, ...]
    axes: Mapping[str, str]
    let: Mapping[str, ast.expr]
    result: ast.expr
    functions: Mapping[str, Pattern] = field(default_factory=dict)
    """Those that it may call."""


@dataclass
class Match:
    """What the names of a pattern stand for: pieces of a function's equations, and axes of its program."""

    pattern: Pattern
    function: Function
    program: Program
    choices: Choices
    pieces: dict[str, ast.expr] = field(default_factory=dict)
    axes: dict[str, str] = field(default_factory=dict)

    def equation(self, name: str) -> ast.expr | None:
        """What a name of the function is short for."""
        equation = next((e for e in self.function.let if e.name == name), None)
        expression: Expression | None = None if equation is None else equation.pick(self.choices)
        return None if expression is None else expression.tree

    def whole(self) -> bool:
        """Whether the function has the pattern's form."""
        result = self.function.result.pick(self.choices)
        if result is None or self.function.remember:
            return False
        return self.same(self.pattern.result, result.tree)

    def same(self, wanted: ast.expr, node: ast.expr) -> bool:
        """Whether a piece of the function has the form of a piece of the pattern."""
        if isinstance(wanted, ast.Name):
            name = wanted.id
            if name in (*self.pattern.tensors, *self.pattern.numbers):
                kept = self.pieces.setdefault(name, node)
                return ast.dump(kept) == ast.dump(node)
            if name in self.pattern.let:
                return self.same(self.pattern.let[name], node)
        if isinstance(node, ast.Name):
            meant = self.equation(node.id)
            if meant is not None:
                return self.same(wanted, meant)
        match wanted, node:
            case ast.Name(id=name), ast.Name(id=other):
                return self._size(name, other) if name in self.pattern.axes.values() else name == other
            case ast.Constant(value=value), ast.Constant(value=other_value):
                return bool(value == other_value)
            case ast.BinOp(), ast.BinOp():
                return (
                    type(wanted.op) is type(node.op)
                    and self.same(wanted.left, node.left)
                    and self.same(wanted.right, node.right)
                )
            case ast.UnaryOp(), ast.UnaryOp():
                return type(wanted.op) is type(node.op) and self.same(wanted.operand, node.operand)
            case ast.Call(func=ast.Name(id=name)), ast.Call(func=ast.Name(id=other)):
                if name in self.pattern.functions:
                    return self._called(self.pattern.functions[name], wanted, node, other)
                return name == other and other not in self.program.functions and self._built_in(wanted, node)
        return False

    def _size(self, symbol: str, other: str) -> bool:
        """Sizes are of the same axis."""
        axis = next(a for a, s in self.pattern.axes.items() if s == symbol)
        actual = self.program.axes.by_symbol.get(other)
        return actual is not None and self._axis(axis, actual)

    def _axis(self, wanted: str | None, actual: str | None) -> bool:
        """One axis of the pattern is one axis of the program, and no other is."""
        if wanted is None or actual is None or wanted not in self.pattern.axes:
            return wanted == actual
        if wanted not in self.axes and actual in self.axes.values():
            return False
        return self.axes.setdefault(wanted, actual) == actual

    def _axes(self, wanted: ast.expr, node: ast.expr) -> bool | None:
        """The same of what stands where an axis, or several, may; None where it is neither."""
        match wanted, node:
            case ast.Name(id=name), ast.Name(id=other) if name in self.pattern.axes:
                return self._axis(name, other)
            case ast.Tuple(elts=elements), ast.Tuple(elts=others) if len(elements) == len(others):
                return all(self._axes(a, b) for a, b in zip(elements, others, strict=True))
        return None

    def _argument(self, wanted: ast.expr, node: ast.expr) -> bool:
        axes = self._axes(wanted, node)
        return self.same(wanted, node) if axes is None else axes

    def _built_in(self, wanted: ast.Call, node: ast.Call) -> bool:
        """A function of the language: its arguments in order, its keywords axes or its own words."""
        if len(wanted.args) != len(node.args) or len(wanted.keywords) != len(node.keywords):
            return False
        if not all(self._argument(a, b) for a, b in zip(wanted.args, node.args, strict=True)):
            return False
        return all(
            self._axis(a.arg, b.arg) and self._argument(a.value, b.value)
            for a, b in zip(wanted.keywords, node.keywords, strict=True)
        )

    def _called(self, pattern: Pattern, wanted: ast.Call, node: ast.Call, name: str) -> bool:
        """A function of the program that has to have a form of its own."""
        function = self.program.functions.get(name)
        if function is None or len(wanted.args) != len(node.args):
            return False
        inner = Match(pattern, function, self.program, self.choices)
        if not inner.whole():
            return False
        inputs = [inner.pieces.get(tensor) for tensor in pattern.tensors]
        if [n.id for n in inputs if isinstance(n, ast.Name)] != list(function.given):
            return False
        if not all(self.same(a, b) for a, b in zip(wanted.args, node.args, strict=True)):
            return False
        bound = {k.arg: k.value for k in node.keywords}
        for keyword in wanted.keywords:
            value = bound.pop(inner.axes.get(str(keyword.arg)), None)
            if value is None or not self._axes(keyword.value, value):
                return False
        given = {k.arg for k in wanted.keywords}
        free = [axis for axis in inner.axes if axis not in given]
        return not bound and all(self._axis(axis, inner.axes[axis]) for axis in free)


def matched(pattern: Pattern, function: Function, program: Program, choices: Choices) -> Match | None:
    """How a function has the form of a pattern, or None."""
    match = Match(pattern, function, program, choices)
    return match if match.whole() else None
