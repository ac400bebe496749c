"""The program read without data: arrays are a kind and sizes that may still be symbols.

Whatever would go wrong with real arrays, in every case and not for some values only, goes wrong
here: sizes that do not agree, a condition that is no condition, an index that is no whole number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from conformance.language.axes import ELLIPSIS, AxisTable
from conformance.language.sizes import Dimension, Size
from conformance.language.tensors import AxisError, Named, SizeError

Kind = Literal["bool", "int", "real", "any"]
"""What an array holds. "any" fits everywhere: the kind of an input that nobody has declared."""


@dataclass(frozen=True)
class Shape:
    """An array of which only kind and sizes are known."""

    kind: Kind
    sizes: tuple[Dimension, ...] = ()


_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//", "remainder": "%",
    "power": "**", "negative": "-", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=",
    "equal": "==", "not_equal": "!=", "and": "&", "or": "|", "not": "~",
}  # fmt: skip
_LOGICAL = frozenset({"and", "or", "not", "any", "all"})
_COMPARISONS = frozenset({"less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "finite"})
_REAL = frozenset({"divide", "power", "exp", "log", "sqrt", "sin", "cos", "tanh", "erf"})
KINDS: Mapping[str, str] = {
    "bool": "true or false",
    "int": "whole numbers",
    "real": "real numbers",
    "any": "anything",
}
"""What messages call each kind."""


class Symbolic:
    """The arithmetic of kinds and sizes. Every operation raises `AxisError` for what cannot be."""

    def constant(self, value: float | Size) -> Shape:
        """A number, or a size of which the value does not matter, as an array without axes."""
        return Shape(
            "bool" if isinstance(value, bool) else "int" if isinstance(value, int | Size) else "real"
        )

    def shape(self, a: Shape) -> tuple[Dimension, ...]:
        """The sizes of `a`."""
        return a.sizes

    def elementwise(self, name: str, *arrays: Shape) -> Shape:
        """Kinds that the function takes, sizes that broadcast."""
        return Shape(_kind(name, [a.kind for a in arrays]), _broadcast([a.sizes for a in arrays]))

    def contract(self, spec: str, a: Shape, b: Shape) -> Shape:
        """A sum of products; a letter has one size in both operands."""
        operands, out = spec.split("->")
        sizes: dict[str, Dimension] = {}
        for letters, array in zip(operands.split(","), (a, b), strict=True):
            for letter, size in zip(letters, array.sizes, strict=True):
                if sizes.setdefault(letter, size) != size:
                    raise SizeError(f"sizes {sizes[letter]} and {size} meet in one axis", sizes[letter], size)
        return Shape(_kind("multiply", [a.kind, b.kind]), tuple(sizes[letter] for letter in out))

    def reduce(self, name: str, a: Shape, axis: int) -> Shape:
        """A reduction over one axis."""
        return Shape(_kind(name, [a.kind]), a.sizes[:axis] + a.sizes[axis + 1 :])

    def cumulative_sum(self, a: Shape, axis: int) -> Shape:
        """A running sum, which counts where `a` is true or false."""
        del axis
        return Shape("int" if a.kind == "bool" else a.kind, a.sizes)

    def transpose(self, a: Shape, order: Sequence[int]) -> Shape:
        """Axes in another order."""
        return Shape(a.kind, tuple(a.sizes[i] for i in order))

    def reshape(self, a: Shape, sizes: Sequence[Dimension]) -> Shape:
        """Other sizes for as many elements."""
        # Most only insert axes of size 1, and a product of symbols is slow.
        moved = [size for size in a.sizes if size != 1] != [size for size in sizes if size != 1]
        if moved and prod(a.sizes, start=1) != prod(sizes, start=1):
            message = f"{_text(a.sizes)} does not have as many elements as {_text(sizes)}"
            raise SizeError(message, prod(a.sizes, start=1), prod(sizes, start=1))
        return Shape(a.kind, tuple(sizes))

    def take(self, a: Shape, indices: Shape, axis: int) -> Shape:
        """Entries along an axis."""
        if indices.kind not in ("int", "any"):
            raise AxisError(f"the indices of take must be {KINDS['int']}, not {KINDS[indices.kind]}")
        return Shape(a.kind, a.sizes[:axis] + indices.sizes + a.sizes[axis + 1 :])

    def concatenate(self, arrays: Sequence[Shape], axis: int) -> Shape:
        """Arrays one after the other; they agree in everything but the size of `axis`."""
        first = arrays[0]
        for other in arrays[1:]:
            for i, (here, there) in enumerate(zip(first.sizes, other.sizes, strict=True)):
                if i != axis and here != there:
                    shown = " and ".join(_text(a.sizes) for a in arrays)
                    raise SizeError(f"{shown} cannot stand one after the other", here, there)
        total = sum((a.sizes[axis] for a in arrays[1:]), start=first.sizes[axis])
        kind = _common("a tensor and what follows it", [a.kind for a in arrays])
        return Shape(kind, (*first.sizes[:axis], total, *first.sizes[axis + 1 :]))

    def last(self, a: Shape, count: Dimension, axis: int) -> Shape:
        """The last entries along an axis."""
        return Shape(a.kind, (*a.sizes[:axis], count, *a.sizes[axis + 1 :]))

    def iota(self, size: Dimension) -> Shape:
        """Whole numbers from 0 on."""
        return Shape("int", (size,))

    def widened(self) -> Symbolic:
        """Kinds have no precision."""
        return self


def _kind(name: str, kinds: list[Kind]) -> Kind:
    sign = _SIGNS.get(name, name)
    if name in _LOGICAL:
        _need(sign, "bool", kinds)
        return "bool"
    if name == "where":
        _need("the condition of where", "bool", kinds[:1])
        return _common("the two sides of where", kinds[1:])
    if name in ("equal", "not_equal") and set(kinds) <= {"bool", "any"}:
        return "bool"
    if "bool" in kinds:
        instead = {"sum": "any, or count it with cumsum", "max": "any"}.get(name, "where(…, 1, 0)")
        raise AxisError(f"'{sign}' needs numbers, not true or false; write {instead}")
    if name in _COMPARISONS:
        return "bool"
    return "real" if name in _REAL else _common(f"'{sign}'", kinds)


def _need(what: str, kind: Kind, kinds: Sequence[Kind]) -> None:
    for found in kinds:
        if found not in (kind, "any"):
            sign = what if " " in what else f"'{what}'"
            raise AxisError(f"{sign} must be {KINDS[kind]}, not {KINDS[found]}; write a comparison")


def _common(what: str, kinds: Sequence[Kind]) -> Kind:
    """The kind of what holds all of `kinds`: whole numbers become real where they meet one."""
    found = set(kinds)
    if "bool" in found and found & {"int", "real"}:
        raise AxisError(f"{what} must be of one kind, not true or false here and numbers there")
    return next(kind for kind in ("any", "real", "int", "bool") if kind in found)


def _broadcast(shapes: Sequence[tuple[Dimension, ...]]) -> tuple[Dimension, ...]:
    rank = max(len(sizes) for sizes in shapes)
    result: list[Dimension] = [1] * rank
    for sizes in shapes:
        for i, size in enumerate(sizes, rank - len(sizes)):
            if result[i] == 1:
                result[i] = size
            elif size not in (1, result[i]):
                raise SizeError(f"{' and '.join(map(_text, shapes))} do not go together", result[i], size)
    return tuple(result)


def _text(sizes: Sequence[Dimension]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


# -- symbolic tensors of a pack ---------------------------------------------------------------------


def size_of(axes: AxisTable, name: str) -> Dimension:
    """The size of an axis as its symbol; of a flattened one, the product of its parts'."""
    axis = axes.by_name[name]
    if axis.parts:
        return prod((size_of(axes, part) for part in axis.parts), start=1)
    return axis.size if axis.size is not None else Size.symbol(axis.symbol or name)


def fixed_sizes(axes: AxisTable) -> dict[str, Dimension]:
    """The sizes that a config fixes, as symbols: those of the axes that name a field of it."""
    return {name: size_of(axes, name) for name, axis in axes.by_name.items() if axis.config}


def sizes_of(axes: AxisTable, names: Sequence[str]) -> list[tuple[str, Dimension]]:
    """Each axis with its size."""
    return [(name, size_of(axes, name)) for name in names]


def axes_of_input(axes: AxisTable, declared: Sequence[str]) -> tuple[str, ...]:
    """Axes that an input of such a declaration may have: the first of the pack stands for `...`."""
    first = next(iter(axes.by_name))
    return tuple(dict.fromkeys(first if name == ELLIPSIS else name for name in declared))


def tensor_of(axes: AxisTable, names: Sequence[str], kind: Kind) -> Named[Shape]:
    """A tensor of the named axes."""
    return Named(tuple(names), Shape(kind, tuple(size_of(axes, name) for name in names)))
