"""Arrays matched by value with the program's tensors.

A target's arrays have no names that we know, other axis orders, merged or split axes, perhaps one
head at a time. Sorted, the values of an array are the same whatever its layout, so candidates are
found by their sorted values; a candidate is the tensor if its values then stand in the order of some
permutation of its axes, which is all that transposing, merging and splitting can do.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from conformance.language.arithmetic import Array
from conformance.language.tensors import Named
from conformance.plan.scenario import Tensors

CLOSE = {"float64": 1e-9, "float32": 2e-5, "float16": 2e-2, "bfloat16": 1e-1}
"""Relative RMS within which sorted values are the same tensor; layouts sum in their own order."""
SLICED = ("batch", "head", "kv_head", "query")
"""Axes over which an implementation may loop, so that it binds one slice at a time."""
ALIKE = 12
"""Candidates of equal values that are looked at: a tensor and its slices, or a few names for one."""
SMALLEST = 3
"""Arrays of fewer elements coincide by chance."""


@dataclass(frozen=True)
class Known:
    """A tensor of the program, or a slice of one, by its sorted values."""

    name: str
    order: int
    tensor: Array
    values: Array
    whole: bool

    def distance(self, array: Array) -> float:
        """The smallest relative RMS difference of an array from the tensor, over permutations of its axes.

        Its own shape must be that permutation's with axes merged or split, never both at once: a
        reshape across axes (heads merged without their transpose) is another tensor.
        """
        shape = [n for n in array.shape if n > 1]
        ours = np.asarray(array, np.float64).reshape(-1)
        tensor = self.tensor.reshape([n for n in self.tensor.shape if n > 1])
        finite = np.isfinite(self.values)
        scale = np.sqrt(np.mean(np.where(finite, self.values, 0.0) ** 2)) + 1e-300
        nearest = np.inf
        for order in itertools.permutations(range(tensor.ndim)):
            if not regrouped(shape, [tensor.shape[i] for i in order]):
                continue
            theirs = tensor.transpose(order).reshape(-1)
            with np.errstate(all="ignore"):
                error = np.where(ours == theirs, 0.0, ours - theirs)
                nearest = np.fmin(nearest, np.sqrt(np.mean(error * error)) / scale)
        return float(nearest)


def regrouped(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether a shape is another with neighbouring axes merged here and an axis split there."""
    ends, others = (set(np.cumprod(shape).tolist()) for shape in (one, other))
    common = sorted(ends & others)
    return all(
        not (any(start < end < stop for end in ends) and any(start < end < stop for end in others))
        for start, stop in itertools.pairwise([0, *common])
    )


@dataclass
class Index:
    """The program's tensors by size, ready to be matched."""

    dtype: str
    by_size: dict[int, list[Known]] = field(default_factory=dict)
    stacks: dict[int, Array] = field(default_factory=dict)

    @staticmethod
    def of(steps: Sequence[Tensors], dtype: str) -> Index:
        """Every tap and output of every call, with its slices; `order` counts as they are made."""
        index = Index(dtype)
        order = 0
        for step in steps:
            for name, tensor in {**step.taps, **step.outputs, **step.inner}.items():
                if tensor.array.dtype.kind not in "fbi":
                    continue
                order += 1
                for part, whole in slices(tensor):
                    if part.size >= SMALLEST and (part != part.flat[0]).any():  # constants coincide
                        values = np.sort(np.asarray(part, np.float64), axis=None)
                        index.by_size.setdefault(values.size, []).append(
                            Known(name, order, part, values, whole)
                        )
        return index

    def match(self, array: Array) -> Known | None:
        """The tensor whose values an array has, whole ones first; None for none."""
        if array.size < SMALLEST or array.dtype.kind not in "fiub":
            return None
        if array.dtype.kind != "b":
            found = self._match(array)
            if found is not None or not two_valued(array):
                return found
            array = array == array.max()  # a mask that is added
        # A mask may say which keys are read, or which are not, and be repeated for every head.
        mask = unrepeated(array)
        return self._match(mask) or self._match(~mask)

    def _match(self, array: Array) -> Known | None:
        known = self.by_size.get(array.size)
        if not known:
            return None
        if array.size not in self.stacks:
            self.stacks[array.size] = np.stack([k.values for k in known])
        stack = self.stacks[array.size]
        with np.errstate(all="ignore"):
            ours = np.sort(np.asarray(array, np.float64), axis=None)
            same = stack == ours  # infinities
            error = np.where(same, 0.0, stack - ours)
            size = np.where(np.isfinite(stack), stack, 0.0)
            off = np.sqrt(np.mean(error * error, axis=1))
            scale = np.sqrt(np.mean(size * size, axis=1))
        near = np.flatnonzero(off <= CLOSE[self.dtype] * scale + 1e-300)
        if not near.size:
            return None
        likely = sorted((known[i] for i in near), key=lambda k: (not k.whole, k.order))
        return next((k for k in likely[:ALIKE] if k.distance(array) <= CLOSE[self.dtype]), None)


def slices(tensor: Named[Array]) -> Iterator[tuple[Array, bool]]:
    """The tensor, and what is left of it where an implementation loops over one or two axes."""
    yield tensor.array, True
    axes = [i for i, axis in enumerate(tensor.axes) if axis in SLICED and tensor.array.shape[i] > 1]
    for count in (1, 2):
        for chosen in itertools.combinations(axes, count):
            for place in itertools.product(*(range(tensor.array.shape[i]) for i in chosen)):
                where: list[slice | int] = [slice(None)] * tensor.array.ndim
                for i, at in zip(chosen, place, strict=True):
                    where[i] = at
                yield tensor.array[tuple(where)], False


def two_valued(array: Array) -> bool:
    """Whether an array has two values, one for what is read and one for what is not."""
    low, high = array.min(), array.max()
    return bool(low < high and ((array == low) | (array == high)).all())


def unrepeated(mask: Array) -> Array:
    """A mask without the leading axes along which it repeats itself."""
    for axis in range(max(mask.ndim - 2, 0)):
        first = mask.take([0], axis=axis)
        if (mask == first).all():
            mask = first
    return mask
