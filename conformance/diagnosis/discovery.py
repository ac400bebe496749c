"""The line: every array that the target computed, matched by value with the program's tensors.

A target's arrays have no names that we know, other axis orders, merged or split axes, perhaps one
head at a time. Sorted, the values of an array are the same whatever its layout, so candidates are
found by their sorted values; a candidate is the tensor if its values then stand in the order of some
permutation of its axes, which is all that transposing, merging and splitting can do.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from conformance.language.arithmetic import Array
from conformance.language.tensors import Named
from conformance.plan.scenario import Tensors
from conformance.results.records import Place
from conformance.session.tracing import Record

CLOSE = {"float64": 1e-9, "float32": 2e-5, "float16": 2e-2, "bfloat16": 1e-1}
"""Relative RMS within which sorted values are the same tensor; layouts sum in their own order."""
SLICED = ("batch", "head", "kv_head", "query")
"""Axes over which an implementation may loop, so that it binds one slice at a time."""
NEARER = 0.25
"""How much nearer a wrong tensor must be where both are within rounding: a wrong ε is as mild as that."""
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


@dataclass(frozen=True)
class Finding:
    """Where the target leaves the program: the last tensor that was right, and what came after."""

    last_right: str
    right_at: Place | None
    expected: str
    place: Place | None
    by_mistake: bool


Patches = frozenset[tuple[str, str]]
"""The equations that a mistake replaces: function and tensor."""


def locate(
    records: Sequence[Record],
    true: Sequence[Tensors],
    patched: Sequence[Tensors] | None,
    dtype: str,
    patches: Patches = frozenset(),
) -> Finding | None:
    """The first array that is wrong.

    With a mistake named (`patched`), it is the first array that equals a tensor which the mistake
    changes and that equals none of the true ones; tensors of the equations that it replaces
    (`patches`) come before those that merely follow. Without, it is the first array after the last
    right tensor that is none of the program's. None where nothing was recorded.
    """
    if not records:
        return None
    right = Index.of(true, dtype)
    matches = [right.match(record.array) for record in records]
    if patched is not None:
        wrong = changed(true, patched)
        for tensors in (directly(wrong, patches), wrong):
            found = _by_mistake(records, matches, Index.of(tensors, dtype))
            if found is not None:
                return found
    return _by_absence(records, matches, true)


def directly(steps: Sequence[Tensors], patches: Patches) -> list[Tensors]:
    """The tensors of replaced equations alone."""
    inner = tuple(f"{function}.{tensor}~" for function, tensor in patches)
    short = {tensor for _, tensor in patches}
    return [
        Tensors(
            {},
            {name: t for name, t in step.taps.items() if name.rpartition(".")[2] in short},
            {name: t for name, t in step.inner.items() if any(part in name for part in inner)},
        )
        for step in steps
    ]


def _by_mistake(records: Sequence[Record], matches: Sequence[Known | None], wrong: Index) -> Finding | None:
    found = ((i, wrong.match(record.array)) for i, record in enumerate(records))
    hits = [
        (i, known) for i, known in found if known is not None and nearer(records[i].array, known, matches[i])
    ]
    if not hits:
        return None
    # A line that makes right tensors elsewhere (a norm's own code) is not the one at fault.
    guilty = {i for i, _ in hits}
    sound = {
        line_of(record)
        for i, (record, known) in enumerate(zip(records, matches, strict=True))
        if known is not None and i not in guilty
    }
    hits = [(i, known) for i, known in hits if line_of(records[i]) not in sound] or hits
    # Where a helper that knew nothing right made it, the line that called the helper is shown.
    before = [
        r.function for r, known in zip(records[: hits[0][0]], matches, strict=False) if known is not None
    ]
    i, known = next((hit for hit in hits if records[hit[0]].function in before[-1:]), hits[0])
    last = _last_right(records[:i], matches[:i])
    return Finding(*last, known.name, place_of(records[i]), by_mistake=True)


def nearer(array: Array, wrong: Known, right: Known | None) -> bool:
    """Whether an array is the wrong tensor: it is no right one, or a mild mistake's is far nearer."""
    if right is None:
        return True
    if array.dtype.kind != "f" or array.size != right.values.size:  # it is a mask that is added
        return False
    return wrong.distance(array) < NEARER * right.distance(array)


def line_of(record: Record) -> tuple[str, int, str]:
    """A line of a target's source, and the variable that it binds."""
    return record.file, record.line, record.variable


def changed(true: Sequence[Tensors], patched: Sequence[Tensors]) -> list[Tensors]:
    """The tensors of a patched program that are not the true one's."""
    result = []
    for ours, theirs in zip(patched, true, strict=True):
        groups: list[dict[str, Named[Array]]] = []
        for made, right in (
            (ours.outputs, theirs.outputs),
            (ours.taps, theirs.taps),
            (ours.inner, theirs.inner),
        ):
            groups.append(
                {name: t for name, t in made.items() if name not in right or _differs(t, right[name])}
            )
        result.append(Tensors(*groups))
    return result


def _differs(one: Named[Array], other: Named[Array]) -> bool:
    return one.array.shape != other.array.shape or not np.allclose(
        one.array, other.array, rtol=1e-9, atol=0, equal_nan=True
    )


def _last_right(records: Sequence[Record], matches: Sequence[Known | None]) -> tuple[str, Place | None]:
    latest = max(((known.order, i) for i, known in enumerate(matches) if known is not None), default=None)
    if latest is None:
        return "", None
    known = matches[latest[1]]
    assert known is not None
    return known.name, place_of(records[latest[1]])


def _by_absence(
    records: Sequence[Record], matches: Sequence[Known | None], true: Sequence[Tensors]
) -> Finding | None:
    """After the furthest right tensor, the first array that is none of the program's."""
    name, at = _last_right(records, matches)
    order = {tap: i for i, tap in enumerate(tap for step in true for tap in {**step.taps, **step.outputs})}
    furthest = max(
        (i for i, known in enumerate(matches) if known is not None and known.name == name), default=-1
    )
    following = [tap for tap, i in order.items() if i > order.get(name, -1)]
    sizes = sizes_of(true)
    for i in range(furthest + 1, len(records)):
        record = records[i]
        if matches[i] is None and record.array.dtype.kind == "f" and record.array.size >= SMALLEST:
            expected = next(
                (tap for tap in following if sizes.get(tap) == record.array.size),
                following[0] if following else "",
            )
            return Finding(name, at, expected, place_of(record), by_mistake=False)
    return Finding(name, at, following[0] if following else "", None, by_mistake=False)


def sizes_of(steps: Sequence[Tensors]) -> Mapping[str, int]:
    """How many elements each tensor has."""
    return {name: t.array.size for step in steps for name, t in {**step.taps, **step.outputs}.items()}


def place_of(record: Record) -> Place:
    """Where a record was made."""
    return Place(record.file, record.line, record.text.strip(), record.variable)


def first_non_finite(records: Sequence[Record]) -> Record | None:
    """The first array with NaN, or with +inf: a mask's -inf is meant."""
    for record in records:
        array = record.array
        if array.dtype.kind == "f" and bool((np.isnan(array) | np.isposinf(array)).any()):
            return record
    return None
