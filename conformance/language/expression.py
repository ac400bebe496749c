"""Expressions: a small subset of Python's grammar, parsed by `ast` and never executed as Python."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache

from conformance.language.errors import NOWHERE, Location, PackError

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.Pow: "power",
    ast.BitAnd: "and",
    ast.BitOr: "or",
}
COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}
UNARY: dict[type[ast.unaryop], str] = {ast.USub: "negative", ast.Invert: "not"}


@dataclass(frozen=True)
class Expression:
    """One expression of the pack: its text, its syntax tree, and where it stands."""

    text: str
    tree: ast.expr
    at: Location = NOWHERE

    def __str__(self) -> str:
        """The text, as the pack's author wrote it."""
        return self.text


@lru_cache(maxsize=4096)
def _tree(text: str) -> ast.expr | str:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        return f"'{text}' is not an expression: {error.msg}"
    except (ValueError, MemoryError, RecursionError):
        return f"'{text[:40]}' is not an expression: too deep, or not text"
    for node in ast.walk(tree):
        fault = _fault(node)
        if fault:
            return f"{fault} in '{text}'"
    return tree


def _fault(node: ast.AST) -> str:
    match node:
        case ast.BinOp(op=op) if type(op) not in BINARY:
            return f"the operator {type(op).__name__} is not part of the language"
        case ast.UnaryOp(op=op) if type(op) not in UNARY:
            return "'not' is written '~'" if isinstance(op, ast.Not) else "a sign '+' does nothing"
        case ast.Compare(ops=ops) if len(ops) != 1:
            return "a chained comparison (write it as two, joined by '&')"
        case ast.Compare(ops=[op]) if type(op) not in COMPARE:
            return f"the comparison {type(op).__name__} is not part of the language"
        case ast.Call(func=func) if not isinstance(func, ast.Name):
            return "only named functions can be called"
        case ast.keyword(arg=None) | ast.Starred():
            return "a star argument"
        case ast.Constant(value=value) if not isinstance(value, int | float | str):
            return f"the constant {value!r} is not part of the language"
        case ast.BoolOp():
            return "'and' and 'or' are written '&' and '|'"
        case (
            ast.BinOp()
            | ast.UnaryOp()
            | ast.Compare()
            | ast.Call()
            | ast.keyword()
            | ast.Constant()
            | ast.Name()
            | ast.Tuple()
            | ast.operator()
            | ast.unaryop()
            | ast.cmpop()
            | ast.expr_context()
        ):
            return ""
        case _:
            return f"{type(node).__name__} is not part of the language"


def parse(value: str | float, at: Location = NOWHERE) -> Expression:
    """An expression from YAML, where a number stands for itself. Raises `PackError`."""
    text = value if isinstance(value, str) else repr(value)
    tree = _tree(text)
    if isinstance(tree, str):
        raise PackError(tree, at)
    return Expression(text, tree, at)


def names_in(expression: Expression) -> frozenset[str]:
    """Every name that an expression mentions: tensors, sizes, axes and functions alike."""
    return _names(expression.tree)


@lru_cache(maxsize=4096)
def _names(tree: ast.expr) -> frozenset[str]:
    return frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name))
