"""Lines of source as statements: which line a person would name, and what a statement may change.

An interpreter reports the line of each piece of an expression. A person means the statement: the
first line of the innermost one, without the body of an `if`, a `for`, a `def`.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

MAX_SOURCE = 2_000_000  # characters; longer files are not analysed
MUTATORS = frozenset(
    ("append", "insert", "extend", "update", "setdefault", "fill", "sort", "put", "itemset", "appendleft")
)
"""Methods that change what they are called on."""
FILLERS = frozenset(("copyto", "putmask", "place", "at", "fill_diagonal", "put", "put_along_axis"))
"""Functions of NumPy that change their first argument."""

Path = tuple[str, Optional[str]]  # a name, and one of its attributes: `self.cache` is ("self", "cache")


class Statement(NamedTuple):
    """One statement, or all that share a line.

    `names` are those that it mentions, all that it can rebind or edit; `paths` what it stores into
    or calls a changing method of.
    """

    first: int
    last: int
    names: tuple[str, ...]
    paths: tuple[Path, ...]
    returns: bool


Table = dict[int, Statement]


def statements(text: str) -> Table:
    """The statement that each line belongs to; {} for what is no Python."""
    if len(text) > MAX_SOURCE:
        return {}
    try:
        with warnings.catch_warnings():  # the import has given them
            warnings.simplefilter("ignore")
            tree = ast.parse(text.lstrip("\ufeff"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    table: Table = {}
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, inside = waiting.pop()
        for first, parts, returns in _pieces(node):
            last = max([first, *(getattr(part, "end_lineno", None) or first for part in parts)])
            statement = Statement(first, last, *_mentions(parts, inside), returns)
            for line in range(first, last + 1):
                other = table.get(line)
                table[line] = statement if other is None else _both(other, statement)
        if isinstance(node, ast.ClassDef):
            inside = node.name
        if not isinstance(node, ast.expr):
            waiting += [(child, inside) for child in ast.iter_child_nodes(node)]
    return table


def _both(one: Statement, other: Statement) -> Statement:
    """Two statements that share a line: `if a: b = c`."""
    return Statement(
        min(one.first, other.first),
        max(one.last, other.last),
        tuple(dict.fromkeys(one.names + other.names)),
        tuple(dict.fromkeys(one.paths + other.paths)),
        one.returns or other.returns,
    )


def _pieces(node: ast.AST) -> Iterator[tuple[int, list[Any], bool]]:
    """(first line, nodes, whether it returns) of a statement without its body; decorators apart."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        for decorator in node.decorator_list:
            yield decorator.lineno, [decorator], False
        if isinstance(node, ast.ClassDef):
            yield node.lineno, [*node.bases, *node.keywords], False
        else:
            yield node.lineno, [node.args], False
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        yield node.lineno, [node.target, node.iter], False
    elif isinstance(node, (ast.If, ast.While)):
        yield node.lineno, [node.test], False
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        yield node.lineno, list(node.items), False
    elif isinstance(node, ast.ExceptHandler):
        yield node.lineno, [] if node.type is None else [node.type], False
    elif type(node).__name__ == "Match":  # Python 3.10
        yield node.lineno, [node.subject], False  # type: ignore[attr-defined]
    elif type(node).__name__ == "match_case":
        pattern, guard = node.pattern, node.guard  # type: ignore[attr-defined]
        yield pattern.lineno, [pattern] if guard is None else [pattern, guard], False
    elif isinstance(node, ast.stmt):
        yield node.lineno, [] if hasattr(node, "body") else [node], isinstance(node, ast.Return)


def _mentions(parts: list[Any], inside: str) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """Names and paths in some nodes, in their order; `inside` is the class around them, '' for none."""
    names: dict[str, None] = {}
    paths: dict[Path, None] = {}
    for part in parts:
        for node in ast.walk(part):
            if isinstance(node, ast.Name):
                names[_mangled(node.id, inside)] = None
            elif type(node).__name__ in ("MatchAs", "MatchStar", "MatchMapping"):
                captured = getattr(node, "name", None) or getattr(node, "rest", None)
                names.update({captured: None} if captured else {})
            if isinstance(node, ast.Call):
                changed = [keyword.value for keyword in node.keywords if keyword.arg == "out"]
                if isinstance(node.func, ast.Attribute):
                    changed += [node.func.value] if mutates(node.func.attr) else []
                    changed += node.args[:1] if node.func.attr in FILLERS else []
                for target in changed:
                    _add(paths, target, inside)
            elif not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
                _add(paths, node, inside)
    return tuple(names), tuple(paths)


def mutates(method: str) -> bool:
    """Whether a method of this name changes what it is called on; those of PyTorch end in `_`."""
    return method in MUTATORS or (method.endswith("_") and not method.endswith("__"))


def _add(paths: dict[Path, None], node: ast.AST, inside: str) -> None:
    """The name, and its first attribute, that a target such as `self.cache[i]["k"]` begins with."""
    attribute: str | None = None
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        attribute = node.attr if isinstance(node, ast.Attribute) else attribute
        node = node.value
    if isinstance(node, ast.Name):
        paths[_mangled(node.id, inside), attribute and _mangled(attribute, inside)] = None


def _mangled(name: str, inside: str) -> str:
    """A private name as Python knows it inside a class."""
    if inside.strip("_") and name.startswith("__") and not name.endswith("__"):
        return f"_{inside.lstrip('_')}{name}"
    return name
