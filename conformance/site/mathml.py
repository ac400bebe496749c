"""Expressions of the pack as MathML, which browsers typeset without a font or a script of ours."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from markupsafe import Markup, escape

from conformance.language.expression import Expression

GREEK = {"theta": "θ", "pi": "π", "inf": "∞", "eps": "ε", "sigma": "σ"}
OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "−", ast.Mult: "·", ast.FloorDiv: "div", ast.Mod: "mod", ast.BitAnd: "∧", ast.BitOr: "∨",
    ast.Lt: "<", ast.LtE: "≤", ast.Gt: ">", ast.GtE: "≥", ast.Eq: "=", ast.NotEq: "≠", ast.USub: "−", ast.Invert: "¬",
}  # fmt: skip
BINDS: dict[type[ast.AST], int] = {
    ast.BitOr: 1, ast.BitAnd: 2, ast.Compare: 3, ast.Add: 4, ast.Sub: 4, ast.Mult: 5, ast.Div: 5, ast.FloorDiv: 5,
    ast.Mod: 5, ast.USub: 6, ast.Invert: 6, ast.Pow: 7,
}  # fmt: skip
"""How tightly an operator binds; where a weaker one stands within it, parentheses are needed."""
REDUCTIONS = {"sum": "∑", "any": "∃", "all": "∀"}
SUMMED = "dot"
ATOM = 9


def equation(name: str, expression: Expression) -> Markup:
    """`name = expression`, as a block."""
    right = _node(expression.tree)[0]
    return Markup('<math display="block"><mrow>{}<mo>=</mo>{}</mrow></math>').format(_name(name), right)


def formula(expression: Expression) -> Markup:
    """An expression, as a block."""
    return Markup('<math display="block">{}</math>').format(_node(expression.tree)[0])


def _node(node: ast.expr) -> tuple[Markup, int]:
    """The markup of a piece, and how tightly it binds."""
    match node:
        case ast.Name(id=name):
            return _name(name), ATOM
        case ast.Constant(value=bool() | str() as value):
            return Markup("<mtext>{}</mtext>").format(str(value)), ATOM
        case ast.Constant(value=value):
            return Markup("<mn>{}</mn>").format(repr(value)), ATOM
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return Markup("<mfrac>{}{}</mfrac>").format(_row(_node(left)[0]), _row(_node(right)[0])), ATOM
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return Markup("<msup>{}{}</msup>").format(
                _within(left, BINDS[ast.Pow] + 1), _row(_node(right)[0])
            ), BINDS[ast.Pow]
        case ast.BinOp(left=left, op=op, right=right):
            binds = BINDS[type(op)]
            return _joined(_within(left, binds), OPERATORS[type(op)], _within(right, binds + 1)), binds
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            binds = BINDS[ast.Compare]
            return _joined(_within(left, binds), OPERATORS[type(op)], _within(right, binds + 1)), binds
        case ast.UnaryOp(op=op, operand=operand):
            binds = BINDS[type(op)]
            sign = Markup("<mo>{}</mo>").format(OPERATORS[type(op)])
            return _row(sign, _within(operand, binds)), binds
        case ast.Tuple(elts=elements):
            return _listed([_node(e)[0] for e in elements]), ATOM
        case ast.Call():
            return _call(node)
    return Markup("<mtext>{}</mtext>").format(ast.unparse(node)), ATOM


def _call(call: ast.Call) -> tuple[Markup, int]:
    name = call.func.id if isinstance(call.func, ast.Name) else "?"
    arguments = [_node(argument)[0] for argument in call.args]
    over = next((k.value for k in call.keywords if k.arg == "over"), None)
    if name == "sqrt" and len(arguments) == 1:
        return Markup("<msqrt>{}</msqrt>").format(arguments[0]), ATOM
    if name == "exp" and len(arguments) == 1:
        return Markup("<msup><mi>e</mi>{}</msup>").format(_row(arguments[0])), BINDS[ast.Pow]
    if name == SUMMED and over is not None and len(call.args) == 2:
        sign = Markup("<munder><mo>∑</mo>{}</munder>").format(_row(_node(over)[0]))
        pieces = [_within(argument, BINDS[ast.Mult]) for argument in call.args]
        return _row(sign, _joined(pieces[0], "·", pieces[1])), BINDS[ast.Mult]
    if name in REDUCTIONS and over is not None and len(call.args) == 1:
        sign = Markup("<munder><mo>{}</mo>{}</munder>").format(REDUCTIONS[name], _row(_node(over)[0]))
        return _row(sign, _within(call.args[0], BINDS[ast.Mult])), BINDS[ast.Mult]
    head = Markup("<mi>{}</mi>").format(name)
    if over is not None:
        head = Markup("<munder>{}{}</munder>").format(head, _row(_node(over)[0]))
    named = [
        _joined(Markup("<mi>{}</mi>").format(k.arg), "=", _node(k.value)[0])
        for k in call.keywords
        if k.arg != "over"
    ]
    return _row(head, _listed([*arguments, *named])), ATOM


def _within(node: ast.expr, binds: int) -> Markup:
    """A piece within an operator, in parentheses where it binds less tightly."""
    markup, own = _node(node)
    return markup if own >= binds else _listed([markup])


def _joined(left: Markup, operator: str, right: Markup) -> Markup:
    return _row(left, Markup("<mo>{}</mo>").format(operator), right)


def _listed(pieces: Sequence[Markup]) -> Markup:
    return _row(
        Markup('<mo stretchy="false">(</mo>'),
        Markup("<mo>,</mo>").join(pieces),
        Markup('<mo stretchy="false">)</mo>'),
    )


def _row(*pieces: Markup) -> Markup:
    return Markup("<mrow>{}</mrow>").format(Markup("").join(pieces))


def _name(name: str) -> Markup:
    """A name; what follows its last underscore, when it is short, is an index: `w_q`, `Dh`."""
    stem, _, index = name.rpartition("_")
    if stem and len(index) <= 2 and len(stem) <= 3:
        return Markup("<msub>{}<mi>{}</mi></msub>").format(_word(stem), index)
    return _word(name)


def _word(name: str) -> Markup:
    return Markup("<mi>{}</mi>").format(escape(GREEK.get(name, name)))
