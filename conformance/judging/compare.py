"""Comparison of two tensors, element by element, where NaN never passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance.language.arithmetic import Array
from conformance.language.program import Text
from conformance.language.tensors import Named
from conformance.results.records import Evidence

PART = 1 << 19
"""Elements that are compared at a time."""
ARRAY_ELEMENTS = 1024
"""Arrays up to this size go into a result whole; of larger ones, the plane around the worst element."""


@dataclass(frozen=True)
class Comparison:
    """`margin` is the worst error in tolerances; None where nothing could be compared."""

    margin: float | None
    evidence: Evidence | None

    @property
    def agrees(self) -> bool:
        """Every compared element is within its tolerance."""
        return self.margin is not None and self.margin <= 1


def compare(
    tensor: str, got: Named[Array], expected: Array, tolerance: Array, counts: Array | None = None
) -> Comparison:
    """Compare `got` with `expected` of the same shape where `counts` (all, by default).

    Elements whose tolerance is infinite are left out: there the dtype itself overflows.
    """
    values = np.asarray(got.array, dtype=np.float64)
    expected = _spread_to(np.asarray(expected, dtype=np.float64), values.shape)
    allowed = _spread_to(tolerance, values.shape)
    margin = errors(values, expected, allowed, counts)
    if not (margin >= 0).any():
        return Comparison(None, None)
    worst = int(np.argmax(margin))
    place = np.unravel_index(worst, values.shape)
    index = {axis: int(i) for axis, i in zip(got.axes, place, strict=True)}
    evidence = Evidence(
        tensor,
        index,
        float(values[place]),
        float(expected[place]),
        float(allowed[place]),
        # Shown of what differs; most comparisons agree, and rounding for a picture takes longer than they do.
        arrays(got.axes, place, values, expected) if margin[place] > 1 else {},
    )
    return Comparison(float(margin[place]), evidence)


def errors(values: Array, expected: Array, allowed: Array, counts: Array | None = None) -> Array:
    """The error of each element in tolerances, infinite where it is not finite; -1 where nothing is compared.

    `values`, `expected` and `allowed` are float64 of one shape; `counts` broadcasts against it. What is large is done
    part by part, since a dozen arrays of its size are made on the way.
    """
    if values.size <= PART:
        return _errors(values, expected, allowed, counts)
    counts = None if counts is None else np.broadcast_to(counts, values.shape)
    axis = next(i for i, size in enumerate(values.shape) if size > 1)
    step = max(1, PART * values.shape[axis] // values.size)
    found = np.empty(values.shape)
    for start in range(0, values.shape[axis], step):
        part = (slice(None),) * axis + (slice(start, start + step),)
        found[part] = _errors(
            values[part], expected[part], allowed[part], None if counts is None else counts[part]
        )
    return found


def _errors(values: Array, expected: Array, allowed: Array, counts: Array | None) -> Array:
    usual = _usual(values, expected, allowed)
    if usual is not None:
        return usual if counts is None else np.where(counts, usual, -1.0)
    considered = np.isfinite(allowed)
    if counts is not None:
        considered = considered & np.broadcast_to(counts, values.shape)
    with np.errstate(all="ignore"):
        error = np.abs(values - expected)
        same = values == expected  # infinities of one sign are equal, and their difference is NaN
        margin = np.where(same, 0.0, np.where(allowed > 0, error / np.maximum(allowed, 5e-324), np.inf))
    margin = np.where(np.isnan(margin) | ~(np.isfinite(values) | same), np.inf, margin)
    return np.asarray(np.where(considered, margin, -1.0))


def _usual(values: Array, expected: Array, allowed: Array) -> Array | None:
    """The errors where everything is finite and everything has a tolerance; None elsewhere, for `errors` to judge."""
    if not values.size:
        return None
    with np.errstate(all="ignore"):
        error = np.abs(values - expected)
        # NaN compares as false, so it is not usual either.
        if error.max() < np.inf and allowed.min() > 0 and allowed.max() < np.inf:
            return np.asarray(error / allowed)
    return None


def _spread_to(array: Array, shape: tuple[int, ...]) -> Array:
    return array if array.shape == shape else np.broadcast_to(array, shape)


def arrays(axes: Sequence[str], place: Sequence[Any], got: Array, expected: Array) -> dict[str, Any]:
    """The tensors, or the plane of their last two axes that holds the worst element."""
    fixed: dict[str, int] = {}
    kept = list(axes)
    while got.size > ARRAY_ELEMENTS and got.ndim > 2:
        fixed[kept[0]] = int(place[0])
        got, expected, place, kept = got[place[0]], expected[place[0]], place[1:], kept[1:]
    if got.size > ARRAY_ELEMENTS or not got.ndim:
        return {}
    return {"axes": kept, "fixed": fixed, "got": rounded(got), "expected": rounded(expected)}


def rounded(values: Array) -> list[Any]:
    """Six significant digits: enough for a picture, small enough for a file."""
    with np.errstate(all="ignore"):
        magnitude = np.floor(np.log10(np.where(np.isfinite(values) & (values != 0), np.abs(values), 1.0)))
        power = 10.0 ** (5 - np.clip(magnitude, -300, 300))
        return list(np.where(np.isfinite(values), np.round(values * power) / power, values).tolist())


def at(index: dict[str, int] | Any) -> Text:
    """`head 1, query 2, key 3`, in both languages."""
    if not index:
        return Text("its only element", "唯一的元素")
    words = ", ".join(f"{axis} {i}" for axis, i in index.items())
    return Text(words, words)


def number(value: Any) -> str:
    """A number as a person reads it."""
    if isinstance(value, bool | str):
        return str(value)
    return f"{value:.7g}"
