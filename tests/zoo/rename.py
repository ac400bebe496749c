"""The same adapter with other names in another order: no verdict may hang on how a submission is written.

What the contract names stays: the operations, `Model` and its `forward`, their arguments, `framework`, `dtype`,
`variant`, `fully_masked`, strings, and the attributes of arrays and of `config`. Everything else that the file binds
gets a name of its own: variables, helper functions, classes, their methods and attributes. Top-level definitions come
in the reverse order, as far as each is there when it is needed.
"""

from __future__ import annotations

import ast
import builtins
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CONTRACT = _words(
    "framework dtype variant fully_masked parameter_shapes Model forward self "
    "softmax layer_norm rms_norm rope attention ffn swiglu multi_head_attention block"
)
"""Names that are looked for in a file (and `self`, which nobody would write otherwise)."""
_CONFIG = _words(
    "n_layers d_model n_heads n_kv_heads d_head d_value d_ff vocab_size max_positions structure norm norm_placement "
    "norm_eps norm_bias final_norm position rope_theta rope_layout bias causal tie_embeddings embed_scale"
)
_FOREIGN = _CONFIG.union(
    *(dir(kind) for kind in (np.ndarray, np.generic, np, dict, list, tuple, set, str, int, float))
)
"""Attributes that may be somebody else's: of `config`, of arrays, of containers."""
_SYLLABLES = sorted(_words("ba co di fu ge ho ja ki lu me no pa qui ro su ta vo wi xe zu"))

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Renamed:
    """The new text, and the line in it where the statement of each old line went."""

    text: str
    lines: dict[int, int]


def rename(text: str, seed: int = 0) -> Renamed:
    """The same program under other names and in another order. Comments are lost."""
    tree = ast.parse(text)
    new = _Names(seed).of(tree).visit(tree)
    new.body = list(reordered(new.body))
    ast.fix_missing_locations(new)
    written = ast.unparse(new)
    return Renamed(written, dict(_lines(new, ast.parse(written))))


def _lines(old: ast.AST, new: ast.AST) -> Iterator[tuple[int, int]]:
    """Lines of the two trees, which are of one form; a statement inside another comes after it."""
    for ours, theirs in zip(ast.walk(old), ast.walk(new), strict=True):
        if isinstance(ours, ast.stmt) and not getattr(ours, "added", False):
            header = ours.body[0].lineno - 1 if hasattr(ours, "body") and ours.body else ours.end_lineno
            for line in range(ours.lineno, max(header or 0, ours.lineno) + 1):
                yield line, theirs.lineno


# -- names ----------------------------------------------------------------------------------------


@dataclass
class _Names(ast.NodeTransformer):
    """One new name for each old one, the same in the whole file."""

    seed: int
    names: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    methods: set[str] = field(default_factory=set)
    fixed: set[str] = field(default_factory=set)
    """Parameters that a call which cannot be resolved passes by keyword."""
    classes: list[str] = field(default_factory=list)

    def of(self, tree: ast.Module) -> _Names:
        """Decide on all names before anything is changed."""
        imported = {
            (alias.asname or alias.name).partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        kept = CONTRACT | imported | set(dir(builtins))
        fields = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                fields |= {t.id for entry in node.body for t in _class_targets(entry)}
                self.methods |= {entry.name for entry in node.body if isinstance(entry, _Function)}
        stored = {
            n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)
        }
        dynamic = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} & {"getattr", "setattr", "vars"}
        own = set() if dynamic else stored | fields | self.methods
        self.defined = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)} - CONTRACT
        bound = set(_bound(tree)) - fields - self.methods
        fresh = _fresh(self.seed, {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} | own | kept)
        self.names = {name: next(fresh) for name in sorted(bound - kept) if not name.startswith("__")}
        self.attributes = {
            name: next(fresh) for name in sorted(own - _FOREIGN - CONTRACT) if not name.startswith("__")
        }
        for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
            if not self._ours(call):
                self.fixed |= {keyword.arg for keyword in call.keywords if keyword.arg}
        return self

    def _ours(self, call: ast.Call) -> bool:
        """Whether a call is of a helper of this file, whose parameters are renamed with it."""
        match call.func:
            case ast.Name(id=name):
                return name in self.defined
            case ast.Attribute(attr=name):
                return name in self.methods and name in self.attributes
        return False

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        node.attr = self.attributes.get(node.attr, node.attr)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if self._ours(node):
            for keyword in node.keywords:
                if keyword.arg and keyword.arg not in self.fixed:
                    both = {**self.attributes, **self.names}
                    keyword.arg = both.get(keyword.arg, keyword.arg)
        self.generic_visit(node)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        for entry in node.body:
            for target in _class_targets(entry):
                if target.id == "__slots__":
                    for word in ast.walk(entry):
                        if isinstance(word, ast.Constant):
                            word.value = self.attributes.get(word.value, word.value)
                target.id = self.attributes.get(target.id, target.id)
        name, node.name = node.name, self.names.get(node.name, node.name)
        self.classes.append(name)
        self.generic_visit(node)
        self.classes.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        inside, self.classes = self.classes, []  # a function inside a method is no method
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        called_by_grader = ("__init__", "forward") if inside == ["Model"] else () if inside else CONTRACT
        offered = node.name in called_by_grader
        again = [a.arg for a in every if a.arg in self.names and (offered or a.arg in self.fixed)]
        for name in (*every, arguments.vararg, arguments.kwarg):
            if name is not None and name.arg not in again:
                name.arg = self.names.get(name.arg, name.arg)
        self.generic_visit(node)
        node.name = (self.attributes if inside else self.names).get(node.name, node.name)
        first = 1 if ast.get_docstring(node) is not None else 0
        node.body[first:first] = [_alias(name, self.names[name], node) for name in again]
        self.classes = inside
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        for name in ast.walk(node.args):
            if isinstance(name, ast.arg):
                name.arg = self.names.get(name.arg, name.arg)
        self.generic_visit(node)
        return node

    def visit_Global(self, node: ast.Global) -> ast.AST:
        node.names = [self.names.get(name, name) for name in node.names]
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        node.names = [self.names.get(name, name) for name in node.names]
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        node.name = self.names.get(node.name, node.name) if node.name else None
        self.generic_visit(node)
        return node


def _class_targets(entry: ast.stmt) -> list[ast.Name]:
    """Names bound in the body of a class: its attributes."""
    targets = [entry.target] if isinstance(entry, ast.AnnAssign) else getattr(entry, "targets", [])
    return [target for target in targets if isinstance(target, ast.Name)]


def _bound(tree: ast.Module) -> Iterator[str]:
    """Every name that the file binds somewhere."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.ExceptHandler(name=str(name)):
                yield name


def _fresh(seed: int, taken: Iterable[str]) -> Iterator[str]:
    """Words that mean nothing and stand nowhere in the file."""
    shuffled, used = random.Random(seed), set(taken)
    while True:
        word = "".join(shuffled.choices(_SYLLABLES, k=shuffled.randint(2, 4)))
        if word not in used:
            used.add(word)
            yield word


def _alias(old: str, new: str, at: _Function) -> ast.stmt:
    """`new = old`, at the top of a function whose argument `old` has to keep its name."""
    node = ast.Assign([ast.Name(new, ast.Store())], ast.Name(old, ast.Load()), lineno=at.lineno)
    node.added = True  # type: ignore[attr-defined]
    return node


# -- order ----------------------------------------------------------------------------------------


def reordered(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Definitions in reverse order, each after what it needs when it is executed.

    Imports stay first; statements that are no definitions keep their order among themselves.
    """
    start = 0
    while start < len(body) and (
        isinstance(body[start], ast.Import | ast.ImportFrom)
        or (isinstance(body[start], ast.Expr) and isinstance(body[start].value, ast.Constant))
    ):
        start += 1
    yield from body[:start]
    rest = body[start:]
    by_name = {node.name: node for node in rest if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    others = [node for node in rest if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assigned = {name: node for node in others for name in _stored(node)}
    done: list[ast.stmt] = []

    def place(node: ast.stmt) -> None:
        if node in done:
            return
        if node in others:
            for earlier in others[: others.index(node)]:
                place(earlier)
        for name in sorted(_needed(node, by_name)):
            for needed in (by_name.get(name), assigned.get(name)):
                if needed is not None and needed is not node:
                    place(needed)
        if node not in done:
            done.append(node)

    for node in reversed(rest):
        place(node)
    yield from done


def _stored(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _loaded(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _needed(node: ast.stmt, by_name: dict[str, ast.stmt]) -> set[str]:
    """Names that must be there when a top-level statement runs."""
    if isinstance(node, ast.FunctionDef):
        parts = [*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d)]
        return set().union(*map(_loaded, parts))
    if isinstance(node, ast.ClassDef):
        inner = [
            _needed(entry, by_name) if isinstance(entry, ast.FunctionDef) else _loaded(entry)
            for entry in node.body
        ]
        return set().union(*map(_loaded, [*node.decorator_list, *node.bases]), *inner)
    # It may call anything that it names, and that anything else.
    found, todo = set(), list(_loaded(node))
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += _loaded(by_name[name]) if name in by_name else ()
    return found
