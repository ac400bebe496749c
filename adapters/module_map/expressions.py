"""The two small languages of a map.

`= 4 * d_model` is a value computed from the config: Python's arithmetic, comparisons, `a if b else
c`, and tables `{'gelu': 'gelu_new'}[ffn]`. `transpose(concat(layers.{i}.w_q, layers.{i}.w_k))` is a
parameter made of canonical ones by declared transforms.
"""

from __future__ import annotations

import ast
import importlib
import operator
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

_BINARY: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARE: dict[type, Any] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


def value_of(value: Any, names: Mapping[str, Any], find: Any = None) -> Any:
    """A value of the map: strings that begin with `=` are computed, `{import: a.b:c}` is looked up.

    `{by: ffn, relu: …, gelu: …}` chooses by a field of the config, `{make: a.b:C, with: …}` makes an
    object.

    Raises ValueError, with the reason, for what is no expression or has an unknown name.
    """
    if isinstance(value, str):
        return computed(value[1:], names) if value.startswith("=") else value
    if isinstance(value, list):
        return [value_of(item, names, find) for item in value]
    if isinstance(value, dict):
        if "by" in value:
            chosen = names.get(value["by"])
            if str(chosen) not in value:
                raise ValueError(f"{value['by']} is {chosen!r}, which is not among {', '.join(value)}")
            return value_of(value[str(chosen)], names, find)
        if "make" in value:
            return (find or imported)(value["make"])(**value_of(value.get("with", {}), names, find))
        if "import" in value:
            found = (find or imported)(value["import"])
            more = value_of(value.get("with", {}), names, find)
            return partial(found, **more) if more else found
        return {key: value_of(item, names, find) for key, item in value.items()}
    return value


def imported(where: str) -> Any:
    """What `package.module:name` names. Raises ValueError where it is not there."""
    module, _, name = where.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{where} cannot be had: {error}") from None
    return found


def computed(text: str, names: Mapping[str, Any]) -> Any:
    """The value of an expression over the fields of the config."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"'{text.strip()}' is no expression: {error.msg}") from None
    return _value(tree, names)


def _value(node: ast.AST, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise ValueError(f"the config has no '{node.id}'; it has {', '.join(sorted(names))}")
        return names[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        operand = _value(node.operand, names)
        return -operand if isinstance(node.op, ast.USub) else not operand
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
        left, right = _value(node.left, names), _value(node.comparators[0], names)
        return _COMPARE[type(node.ops[0])](left, right)
    if isinstance(node, ast.BoolOp):
        parts = (bool(_value(part, names)) for part in node.values)  # as Python: no further than needed
        return all(parts) if isinstance(node.op, ast.And) else any(parts)
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, names) else node.orelse, names)
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_value(part, names) for part in node.elts]
    if isinstance(node, ast.Dict) and all(node.keys):
        return {
            _value(k, names): _value(v, names)
            for k, v in zip(node.keys, node.values, strict=True)
            if k is not None
        }
    if isinstance(node, ast.Subscript):
        table, key = _value(node.value, names), _value(node.slice, names)
        try:
            return table[key]
        except (KeyError, IndexError, TypeError):
            raise ValueError(f"{key!r} is not in {table!r}") from None
    raise ValueError(f"'{ast.unparse(node)}' may not stand here")


LAYER = re.compile(r"\{(\d*)i(?:\+(\d+))?\}")


def at_layer(text: str, layer: int) -> str:
    """A name with its place for the layer's number filled: `{i}`; `{2i}` and `{2i+1}` where two parts of a layer count."""
    return LAYER.sub(lambda m: str(int(m[1] or 1) * layer + int(m[2] or 0)), text)


class Made(NamedTuple):
    """A transform applied to values and words: `times(w_q, '= d_head ** 0.5')`."""

    transform: str
    arguments: tuple[Value, ...]


class Canonical(NamedTuple):
    """A parameter by its canonical name, which may hold `{i}`."""

    name: str


Value = Made | Canonical | str | float
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'[^']*')|(?P<number>-?\d+(?:\.\d+)?(?![\w.{]))|(?P<name>[A-Za-z_][\w.{}+]*)|(?P<mark>[(),]))"
)


def parsed(text: str) -> Value:
    """A parameter's expression. Raises ValueError for what is none."""
    tokens = []
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"'{text}' cannot be read from '{text[position:].strip()}' on")
        tokens.append((str(match.lastgroup), match.group().strip()))
        position = match.end()
    tokens.reverse()
    found = _parsed(tokens, text)
    if tokens:
        raise ValueError(f"'{text}' goes on after its end with '{tokens[-1][1]}'")
    return found


def _parsed(tokens: list[tuple[str, str]], text: str) -> Value:
    if not tokens:
        raise ValueError(f"'{text}' ends too early")
    kind, token = tokens.pop()
    if kind == "text":
        return token[1:-1]
    if kind == "number":
        return float(token)
    if kind != "name":
        raise ValueError(f"'{text}' has '{token}' where a parameter is expected")
    if not tokens or tokens[-1][1] != "(":
        return Canonical(token)
    tokens.pop()
    arguments: list[Value] = []
    while tokens and tokens[-1][1] != ")":
        arguments.append(_parsed(tokens, text))
        if tokens and tokens[-1][1] == ",":
            tokens.pop()
    if not tokens:
        raise ValueError(f"'{text}' lacks a closing parenthesis")
    tokens.pop()
    return Made(token, tuple(arguments))


def names_in(value: Value) -> list[str]:
    """The canonical parameters that an expression reads."""
    if isinstance(value, Canonical):
        return [value.name]
    if isinstance(value, Made):
        return [name for argument in value.arguments for name in names_in(argument)]
    return []
