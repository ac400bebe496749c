"""Arrays matched by value with the program's tensors.

A target's arrays have no names that we know, other axis orders, merged or split axes, perhaps one
head at a time. Sorted, the values of an array are the same whatever its layout, so candidates are
found by their sorted values; a candidate is the tensor if its values then stand in the order of some
permutation of its axes, which is all that transposing, merging and splitting can do.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

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
EXACT = 1e-7
"""Distances below are rounding."""
PIECE = 2
"""The `obscurity` of a piece of an equation."""
HIDDEN = -1e8
"""Scores below are as good as -inf: the fill of a mask."""
SMALLEST = 3
"""Arrays of fewer elements coincide by chance."""


@dataclass(frozen=True)
class Known:
    """A tensor of the program, or a slice of one, by its sorted values."""

    name: str
    order: int
    step: int
    tensor: Array
    values: Array
    whole: bool

    def twist(self, array: Array) -> int:
        """How a mask has to be turned to be this one: 0 not at all, 1 negated, 2 transposed, 3 both."""
        if array.dtype.kind != "b":
            array = array == array.max()
        mask = np.squeeze(unrepeated(array))
        own = np.squeeze(self.tensor)
        if mask.shape == own.shape and (mask == own).all():
            return 0
        if mask.shape == own.shape and (mask != own).all():
            return 1
        return 2 if mask.sum() == own.sum() else 3

    @property
    def obscurity(self) -> int:
        """How little its name says outside."""
        return obscurity(self.name)

    def distance(self, array: Array) -> float:
        """The smallest relative RMS difference of an array from the tensor, over permutations of its axes.

        Its own shape must be that permutation's with axes merged or split, never both at once: a
        reshape across axes (heads merged without their transpose) is another tensor.
        """
        shape = [n for n in array.shape if n > 1]
        ours = np.asarray(array, np.float64).reshape(-1)
        if np.isneginf(self.values).any():
            ours = np.where(ours < HIDDEN, -np.inf, ours)
        tensor = self.tensor.reshape([n for n in self.tensor.shape if n > 1])
        finite = np.isfinite(self.values)
        with np.errstate(
            over="ignore"
        ):  # of numbers near the end of float64 it is infinite, and nothing matches
            scale = np.sqrt(np.mean(np.where(finite, self.values, 0.0) ** 2)) + 1e-300
        nearest = np.inf
        for order in itertools.permutations(range(tensor.ndim)):
            if not regrouped(shape, [tensor.shape[i] for i in order]):
                continue
            theirs = tensor.transpose(order).reshape(-1)
            with np.errstate(all="ignore"):
                same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
                error = np.where(same, 0.0, ours - theirs)
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


class Stack(NamedTuple):
    """The sorted values of tensors of one size, some of them, and the root of their mean square."""

    values: Array
    few: Array
    scales: Array

    @staticmethod
    def of(known: Sequence[Known]) -> Stack:
        """Tensors one below the other."""
        values = np.stack([k.values for k in known])
        with np.errstate(all="ignore"):
            scales = np.sqrt(np.mean(np.where(np.isfinite(values), values, 0.0) ** 2, axis=1))
        return Stack(values, values[:, sampled(values.shape[1])], scales)


def sampled(size: int) -> list[int]:
    """Which of the sorted values are compared first."""
    return sorted({0, size // 4, size // 2, 3 * size // 4, size - 1})


@dataclass
class Index:
    """The program's tensors by size, ready to be matched."""

    dtype: str
    by_size: dict[int, list[Known]] = field(default_factory=dict)
    stacks: dict[int, Stack] = field(default_factory=dict)
    matched: dict[object, Known | None] = field(default_factory=dict)

    @staticmethod
    def of(steps: Sequence[Tensors], dtype: str, sizes: frozenset[int], uniform: bool = False) -> Index:
        """Every tensor of every call with its slices, of the sizes asked for; `order` counts as they are made.

        Constants coincide with anything and are left out; `uniform` keeps masks that hide nothing.
        """
        index = Index(dtype)
        order = 0
        for step, tensors in enumerate(steps):
            for name, laid_out in distinct(tensors):
                tensor = queries_first(laid_out)
                if tensor.array.dtype.kind not in "fbi":
                    continue
                order += 1
                for part, whole in slices(tensor):
                    if part.size not in sizes or part.size < smallest(part):
                        continue
                    varied = bool((part != part.flat[0]).any())
                    if varied or (uniform and whole and part.dtype.kind == "b" and obscurity(name) != PIECE):
                        values = np.sort(np.asarray(part, np.float64), axis=None)
                        index.by_size.setdefault(values.size, []).append(
                            Known(name, order, step, part, values, whole)
                        )
        return index

    def named(self, name: str, step: int) -> Known | None:
        """A whole tensor by its best known name."""
        every = (k for group in self.by_size.values() for k in group)
        return next((k for k in every if k.whole and k.name == name and k.step == step), None)

    def is_shared(self, known: Known) -> bool:
        """Whether another tensor that is known outside has the same values in the same call."""
        return any(
            k.name != known.name
            and k.step == known.step
            and not k.obscurity
            and k.whole
            and k.tensor.shape == known.tensor.shape
            and np.array_equal(k.values, known.values)
            for k in self.by_size.get(known.values.size, ())
        )

    def match(self, array: Array, step: int | None = None) -> Known | None:
        """The tensor whose values an array has, whole ones first; None for none.

        An array of call `step` may be a tensor of that call or one that was kept since an earlier
        one. What counts or hides is never kept, and small integers coincide: that is of the call.
        """
        if array.dtype.kind not in "fiub" or array.size < smallest(array):
            return None
        key = (array.tobytes(), array.shape, array.dtype.str, step)
        if key not in self.matched:
            self.matched[key] = self._found(array, step)
        return self.matched[key]

    def _found(self, array: Array, step: int | None) -> Known | None:
        if array.dtype.kind != "b":
            found = self._match(array, step, array.dtype.kind == "f")
            if found is None and array.dtype.kind == "f":
                with np.errstate(all="ignore"):
                    values = np.asarray(array, np.float64)
                    hidden = values < HIDDEN
                if hidden.any():
                    found = self._match(np.where(hidden, -np.inf, values), step, True)
            if found is not None or not two_valued(array):
                return found
            array = array == array.max()  # a mask that is added
        # A mask may say which keys are read, or which are not, and be repeated for every head.
        mask = unrepeated(array)
        either = [self._match(m, step, False) for m in (mask, ~mask)]
        return min((k for k in either if k is not None), key=lambda k: k.twist(array), default=None)

    def scrambled(self, array: Array, step: int | None = None) -> Known | None:
        """The tensor of a call whose values an array has in another order; None for none.

        A piece of an equation is bound by few: an array with its values is an answer that is half filled in.
        """
        if array.dtype.kind != "f" or array.size < smallest(array):
            return None
        alike = [k for k in self._of_values(array) if k.whole and step in (None, k.step)]
        if any(k.distance(array) <= CLOSE[self.dtype] for k in alike):
            return None
        named = [k for k in alike if k.obscurity != PIECE]
        return min(named, key=lambda k: (k.obscurity, k.order), default=None)

    def _match(self, array: Array, step: int | None, kept: bool) -> Known | None:
        near = self._of_values(array)
        if array.dtype.kind == "b":
            near = [k for k in near if k.tensor.dtype.kind == "b"]
        if step is not None:
            near = [k for k in near if k.step == step or (kept and k.step < step)]
        likely: list[Known] = sorted(near, key=lambda k: (not k.whole, -k.step, k.obscurity, k.order))[:ALIKE]
        apart = [k.distance(array) for k in likely]
        nearest = min(apart, default=np.inf)
        if nearest > CLOSE[self.dtype]:
            return None
        # Of those that are as near as rounding lets one tell, the first.
        return next(k for k, distance in zip(likely, apart, strict=True) if distance <= 2 * nearest + EXACT)

    def _of_values(self, array: Array) -> list[Known]:
        """The tensors that have an array's values, in whichever order."""
        known = self.by_size.get(array.size)
        if not known:
            return []
        if array.size not in self.stacks:
            self.stacks[array.size] = Stack.of(known)
        stack, few, scales = self.stacks[array.size]
        close = CLOSE[self.dtype]
        with np.errstate(all="ignore"):
            ours = np.sort(np.asarray(array, np.float64), axis=None)
            # A few of the values rule most tensors out: none is off by more than all of them together may be.
            bound = close * scales * np.sqrt(array.size) + 1e-300
            sample = ours[sampled(array.size)]
            alike = (
                (few == sample)
                | (np.isnan(few) & np.isnan(sample))
                | (np.abs(few - sample) <= bound[:, None])
            )
            rows = np.flatnonzero(alike.all(axis=1))
            same = (stack[rows] == ours) | (np.isnan(stack[rows]) & np.isnan(ours))  # infinities too
            error = np.where(same, 0.0, stack[rows] - ours)
            off = np.sqrt(np.mean(error * error, axis=1))
        return [known[i] for i in rows[off <= close * scales[rows] + 1e-300]]


def sizes_of(arrays: Iterable[Array]) -> frozenset[int]:
    """The sizes under which arrays may be matched: their own, and those of masks that repeat themselves."""
    sizes = set()
    for array in arrays:
        sizes.add(array.size)
        if array.size >= smallest(array) and two_valued(array):
            sizes.add(unrepeated(array == array.max()).size)
    return frozenset(sizes)


def queries_first(tensor: Named[Array]) -> Named[Array]:
    """A mask with its axes in the order in which everybody writes them; others as they are."""
    if tensor.array.dtype.kind != "b" or not {"query", "key"} <= set(tensor.axes):
        return tensor
    axes = sorted(tensor.axes, key=lambda axis: (axis == "key", axis == "query"))
    return Named(tuple(axes), tensor.array.transpose([tensor.axes.index(axis) for axis in axes]))


def distinct(tensors: Tensors) -> list[tuple[str, Named[Array]]]:
    """All tensors of a call in the order in which the program made them, each once under its best known name."""
    found: dict[int, tuple[str, Named[Array]]] = {}
    for group in (tensors.inner, tensors.taps, tensors.outputs):
        for name, tensor in group.items():
            if group is not tensors.inner and name in tensors.inner:
                continue
            before = found.get(id(tensor.array))
            if before is None:
                found[id(tensor.array)] = name, tensor
            elif obscurity(name) < obscurity(before[0]):
                found[id(tensor.array)] = name, before[1]
    return list(found.values())


def obscurity(name: str) -> int:
    """0 for a tensor that is known outside, 1 for one of an equation, 2 for a piece of an equation."""
    return 2 if ":" in name else int("~" in name)


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


def smallest(array: Array) -> int:
    """How many elements an array must have to be told from others."""
    return 2 if array.dtype.kind == "b" else SMALLEST


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
