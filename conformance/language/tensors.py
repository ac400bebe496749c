"""Tensors with named axes, and the operations of the language on them, in any arithmetic.

Nothing here knows a Transformer. Every operation takes and returns `Named`; axes that it does
not mention are carried along, which is what lets a stochastic reading add one of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Generic, TypeVar

from conformance.language.arithmetic import Arithmetic
from conformance.language.sizes import Dimension, Size

A = TypeVar("A")


@dataclass(frozen=True, eq=False)
class Named(Generic[A]):
    """An array and the names of its axes, in order."""

    axes: tuple[str, ...]
    array: A


class AxisError(Exception):
    """Axes that do not fit an operation; the evaluator adds file and line."""


class SizeError(AxisError):
    """Sizes that do not agree, and which two."""

    def __init__(self, message: str, one: Dimension, other: Dimension) -> None:
        super().__init__(message)
        self.sizes = one, other


@lru_cache(maxsize=4096)
def _alignment(
    own: tuple[str, ...], axes: tuple[str, ...]
) -> tuple[tuple[int, ...] | None, tuple[bool, ...] | None]:
    """How an array with the axes `own` comes to broadcast along `axes`.

    The order of its axes, and which of `axes` it has, where the others are to be of size 1; None where
    there is nothing to do.
    """
    present = tuple(axis for axis in axes if axis in own)
    order = None if present == own else tuple(own.index(axis) for axis in present)
    # Leading axes broadcast by themselves.
    lead = next((i for i, axis in enumerate(axes) if axis in own), len(axes))
    pattern = tuple(axis in own for axis in axes[lead:])
    return order, None if all(pattern) else pattern


@lru_cache(maxsize=4096)
def _contraction(
    x: tuple[str, ...], y: tuple[str, ...], over: tuple[str, ...]
) -> tuple[tuple[str, ...], str]:
    """The axes that a product summed over `over` keeps, and its form as `einsum` writes it."""
    axes = tuple(dict.fromkeys(x + y))
    letters = {axis: chr(97 + i) for i, axis in enumerate(axes)}
    kept = tuple(axis for axis in axes if axis not in over)
    left, right, out = ("".join(letters[axis] for axis in part) for part in (x, y, kept))
    return kept, f"{left},{right}->{out}"


@dataclass(frozen=True)
class Operations(Generic[A]):
    """The language's operations in one arithmetic. Each raises `AxisError`."""

    arithmetic: Arithmetic[A]

    def constant(self, value: float | Size) -> Named[A]:
        """A number, or a size, as a tensor without axes."""
        return Named((), self.arithmetic.constant(value))

    def sizes(self, x: Named[A]) -> dict[str, Dimension]:
        """The size of each axis of `x`."""
        return dict(zip(x.axes, self.arithmetic.shape(x.array), strict=True))

    def size(self, x: Named[A], axis: str) -> Dimension:
        """The size of one axis."""
        return self.arithmetic.shape(x.array)[self.position(x, axis)]

    def position(self, x: Named[A], axis: str) -> int:
        """Where an axis stands in `x`."""
        if axis not in x.axes:
            raise AxisError(f"there is no axis '{axis}' in [{' '.join(x.axes)}]")
        return x.axes.index(axis)

    def ordered(self, x: Named[A], axes: Sequence[str]) -> Named[A]:
        """`x` with its axes in the order of `axes`, which must be the same set."""
        if x.axes == tuple(axes):
            return x
        order = [self.position(x, axis) for axis in axes]
        return Named(tuple(axes), self.arithmetic.transpose(x.array, order))

    def in_result(self, axes: Iterable[str]) -> tuple[str, ...]:
        """The axes of a result in their order: as they are met."""
        return tuple(axes)

    def elementwise(self, name: str, *tensors: Named[A]) -> Named[A]:
        """A function of each element; axes are matched by name."""
        shape = self.arithmetic.shape
        if len(tensors) == 1 and self.in_result(tensors[0].axes) == tensors[0].axes:
            return Named(tensors[0].axes, self.arithmetic.elementwise(name, tensors[0].array))
        sizes: dict[str, Dimension] = {}
        for x in tensors:
            for axis, size in zip(x.axes, shape(x.array), strict=True):
                if sizes.setdefault(axis, size) != size:
                    message = f"axis '{axis}' has size {sizes[axis]} here and {size} there"
                    raise SizeError(message, sizes[axis], size)
        axes = self.in_result(sizes)
        arrays = []
        for x in tensors:
            array = x.array
            if x.axes != axes:
                order, pattern = _alignment(x.axes, axes)
                if order is not None:
                    array = self.arithmetic.transpose(array, order)
                if pattern is not None:
                    own = iter(shape(array))
                    array = self.arithmetic.reshape(array, [next(own) if there else 1 for there in pattern])
            arrays.append(array)
        return Named(axes, self.arithmetic.elementwise(name, *arrays))

    def dot(self, x: Named[A], y: Named[A], over: Sequence[str]) -> Named[A]:
        """Products summed over `over`; every other axis is kept once."""
        for axis in (*over, *(axis for axis in x.axes if axis in y.axes)):
            here, there = self.size(x, axis), self.size(y, axis)
            if here != there:
                raise SizeError(f"axis '{axis}' has size {here} here and {there} there", here, there)
        kept, spec = _contraction(x.axes, y.axes, tuple(over))
        return Named(kept, self.arithmetic.contract(spec, x.array, y.array))

    def reduce(self, name: str, x: Named[A], over: Sequence[str]) -> Named[A]:
        """Sum, max, any or all over axes.

        What does not vary along an axis has no need of it: any, all and max of a tensor without
        that axis are the tensor itself.
        """
        for axis in over:
            if axis not in x.axes and name != "sum":
                continue
            i = self.position(x, axis)
            x = Named(x.axes[:i] + x.axes[i + 1 :], self.arithmetic.reduce(name, x.array, i))
        return x

    def count(self, x: Named[A], over: Sequence[str]) -> Dimension:
        """How many elements a reduction over `over` takes together."""
        return prod((self.size(x, axis) for axis in over), start=1)

    def cumulative_sum(self, x: Named[A], axis: str) -> Named[A]:
        """Running sum along an axis."""
        return Named(x.axes, self.arithmetic.cumulative_sum(x.array, self.position(x, axis)))

    def index(self, axis: str, size: Dimension) -> Named[A]:
        """0, 1, 2, … along an axis."""
        return Named((axis,), self.arithmetic.iota(size))

    def take(self, x: Named[A], axis: str, indices: Named[A]) -> Named[A]:
        """Entries of `x` along `axis`; the axes of `indices` stand in its place."""
        clash = set(indices.axes) & (set(x.axes) - {axis})
        if clash:
            raise AxisError(f"'{clash.pop()}' is an axis of the tensor and of its indices")
        i = self.position(x, axis)
        axes = x.axes[:i] + indices.axes + x.axes[i + 1 :]
        return Named(axes, self.arithmetic.take(x.array, indices.array, i))

    def last(self, x: Named[A], count: Dimension, axis: str) -> Named[A]:
        """The last entries along an axis."""
        return Named(x.axes, self.arithmetic.last(x.array, count, self.position(x, axis)))

    def split(
        self, x: Named[A], axis: str, into: Sequence[str], size: Callable[[str], Dimension | None]
    ) -> Named[A]:
        """One axis as several; at most one of them may be of a size still unknown."""
        i = self.position(x, axis)
        parts = self.filled(self.size(x, axis), [size(part) for part in into], into, f"axis '{axis}'")
        self._fresh(x.axes, into, axis)
        sizes = self.arithmetic.shape(x.array)
        array = self.arithmetic.reshape(x.array, [*sizes[:i], *parts, *sizes[i + 1 :]])
        return Named(x.axes[:i] + tuple(into) + x.axes[i + 1 :], array)

    @staticmethod
    def filled(
        total: Dimension, known: Sequence[Dimension | None], into: Sequence[str], what: str = "the tensor"
    ) -> list[Dimension]:
        """The sizes of the axes `into`, of which one may be unknown, where their product is `total`."""
        unknown = [axis for axis, size in zip(into, known, strict=True) if size is None]
        if len(unknown) > 1:
            raise AxisError(f"the sizes of {' and '.join(unknown)} are unknown")
        others = prod((size for size in known if size is not None), start=1)
        sizes = [total // others if size is None else size for size in known]
        if prod(sizes, start=1) != total:
            wanted = " × ".join(f"{size} {axis}" for axis, size in zip(into, sizes, strict=True))
            raise SizeError(f"{what} of size {total} is not {wanted}", total, prod(sizes, start=1))
        return sizes

    def merge(self, x: Named[A], axes: Sequence[str], into: str) -> Named[A]:
        """Several axes as one, the first of them slowest."""
        rest = tuple(axis for axis in x.axes if axis not in axes)
        self._fresh(rest, [into], "")
        y = self.ordered(x, (*rest, *axes))
        sizes = self.arithmetic.shape(y.array)[: len(rest)]
        total = self.count(x, axes)
        return Named((*rest, into), self.arithmetic.reshape(y.array, [*sizes, total]))

    def stack(self, tensors: Sequence[Named[A]], axis: str) -> Named[A]:
        """Tensors of the same axes along a new one."""
        axes = tensors[0].axes
        self._fresh(axes, [axis], "")
        arrays = []
        for x in tensors:
            if set(x.axes) != set(axes):
                raise AxisError(f"[{' '.join(axes)}] and [{' '.join(x.axes)}] do not stack")
            y = self.ordered(x, axes)
            arrays.append(self.arithmetic.reshape(y.array, [*self.arithmetic.shape(y.array), 1]))
        return Named((*axes, axis), self.arithmetic.concatenate(arrays, len(axes)))

    def join(self, past: Named[A] | None, x: Named[A], axis: str, into: str) -> Named[A]:
        """What was there before (nothing, at first) and then `x`, along the axis `into`."""
        new = self.relabel(x, {axis: into})
        if past is None:
            return new
        axes = new.axes if len(new.axes) >= len(past.axes) else past.axes
        if set(past.axes) != set(new.axes):
            raise AxisError(f"[{' '.join(past.axes)}] and [{' '.join(new.axes)}] do not join")
        i = axes.index(into)
        arrays = [self.ordered(past, axes).array, self.ordered(new, axes).array]
        return Named(axes, self.arithmetic.concatenate(arrays, i))

    def relabel(self, x: Named[A], names: Mapping[str, str]) -> Named[A]:
        """The same array under other axis names."""
        for old in names:
            self.position(x, old)
        axes = tuple(names.get(axis, axis) for axis in x.axes)
        if len(set(axes)) != len(axes):
            raise AxisError(f"an axis stands twice in [{' '.join(axes)}]")
        return Named(axes, x.array)

    def reinterpret(
        self, x: Named[A], order: Sequence[str], into: Sequence[str], sizes: Sequence[Dimension]
    ) -> Named[A]:
        """Elements in the C order of `order`, read as `into`: a reshape without its transpose.

        Only mistakes may do this.
        """
        rest = tuple(axis for axis in x.axes if axis not in order)
        y = self.ordered(x, (*rest, *order))
        lead = self.arithmetic.shape(y.array)[: len(rest)]
        return Named((*rest, *into), self.arithmetic.reshape(y.array, [*lead, *sizes]))

    @staticmethod
    def _fresh(axes: Sequence[str], new: Sequence[str], gone: str) -> None:
        for axis in new:
            if axis in axes and axis != gone:
                raise AxisError(f"there is an axis '{axis}' already")
