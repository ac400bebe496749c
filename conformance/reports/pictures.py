"""Arrays of a failure as data for a picture: checked, rounded, bounded.

The page draws them (`report.js`): what came, what was expected and the difference, plane by plane, and
how large the difference is along each axis.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conformance.reports import plain
from conformance.reports.model import Evidence

ELEMENTS = 4096
"""More are not drawn: a cell would be smaller than a pixel."""
DIGITS = 4


def picture(evidence: Evidence | None) -> str:
    """`{"axes", "sizes", "fixed", "spot", "got", "expected"}` as JSON, the arrays flat; '' where there is nothing to draw."""
    arrays = evidence.arrays if evidence else None
    if evidence is None or not isinstance(arrays, Mapping):
        return ""
    axes = plain.strings(arrays.get("axes"), 40, 8)
    got, expected = arrays.get("got"), arrays.get("expected")
    sizes = _sizes(got, len(axes))
    if not axes or not sizes or sizes != _sizes(expected, len(axes)) or math.prod(sizes) < 2:
        return ""
    try:
        flat = [[_number(value) for value in _flat(array, sizes)] for array in (got, expected)]
    except (TypeError, ValueError):
        return ""
    fixed = arrays.get("fixed")
    document = {
        "axes": axes,
        "sizes": sizes,
        "fixed": {plain.line(k, 40): v for k, v in fixed.items() if isinstance(v, int)} if isinstance(fixed, Mapping) else {},
        "spot": [min(max(evidence.spot.get(axis, 0), 0), size - 1) for axis, size in zip(axes, sizes, strict=True)],
        "got": flat[0],
        "expected": flat[1],
    }  # fmt: skip
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def _sizes(array: Any, axes: int) -> list[int]:
    """Lengths along each axis, as the first entries have them; [] for what is no array of so many axes."""
    sizes = []
    for _ in range(axes):
        if not isinstance(array, list) or not array:
            return []
        sizes.append(len(array))
        array = array[0]
    return [] if isinstance(array, list) or math.prod(sizes) > ELEMENTS else sizes


def _flat(array: Any, sizes: Sequence[int]) -> Iterator[Any]:
    """The elements in order. Raises `ValueError` where an entry has another length."""
    if not sizes:
        yield array
        return
    if not isinstance(array, list) or len(array) != sizes[0]:
        raise ValueError("not rectangular")
    for entry in array:
        yield from _flat(entry, sizes[1:])


def _number(value: Any) -> float | int | str:
    """A number in a few digits; what JSON lacks as a word."""
    if isinstance(value, bool):
        return int(value)
    number = float(value)
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    short = float(f"{number:.{DIGITS}g}")
    return int(short) if short == int(short) and abs(short) < 1e6 else short
