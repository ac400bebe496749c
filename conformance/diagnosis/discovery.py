"""The line: where the arrays that a target computed leave the program, and what they should have been."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from conformance.diagnosis.changes import Patches, changed, content, directly
from conformance.diagnosis.matching import Index, Known, sizes_of
from conformance.diagnosis.search import Search, line_of
from conformance.language.arithmetic import Array
from conformance.language.program import RESULT
from conformance.plan.scenario import Tensors
from conformance.results.records import Place
from conformance.session.tracing import Record


@dataclass(frozen=True)
class Finding:
    """Where the target leaves the program, and how sure that is."""

    place: Place | None
    rank: int
    """How sure it is: 4 it is what a mistake makes, 3 what it takes for something else, 2 what it is given,
    1 what follows from it, 0 nothing of the program's."""


@dataclass(frozen=True)
class WrongTensor:
    """What a target shows of the first tensor that is wrong."""

    name: str
    step: int
    array: Array


SURE = 4
"""The rank of a place that needs no second look."""


def best(
    records: Sequence[Record],
    true: Sequence[Tensors],
    wrong: Sequence[tuple[Sequence[Tensors], Patches]],
    dtype: str,
    inputs: Sequence[Array],
    shown: WrongTensor | None = None,
) -> Finding | None:
    """The first array that is wrong; None where nothing was recorded.

    With mistakes named (`wrong`: what each makes, and the equations that it replaces), it is the
    first array that equals a tensor which one of them changes and that equals none of the true ones;
    tensors of the equations that it replaces come before those that merely follow. Without, it is
    the first array after the last right tensor that is none of the program's, and no later one than
    what the target itself shows as the first wrong tensor (`shown`).
    """
    if not records:
        return None
    sizes = sizes_of(record.array for record in records)
    right = Index.of(true, dtype, sizes)
    matches = [right.match(record.array, record.step) for record in records]
    searches = []
    for patched, patches in wrong:
        change = changed(true, patched)
        groups = (*directly(change, patches), change)
        searches.append(
            Search(
                records,
                matches,
                right,
                true,
                patches,
                inputs,
                *(Index.of(group, dtype, sizes, uniform=True) for group in groups),
            )
        )
    for find in (Search.made, Search.called, Search.followed):
        hits = [hit for search in searches if (hit := find(search)) is not None]
        if hits:
            i, known, rank = min(hits, key=lambda hit: hit[0])
            if not_a_number(known.values):
                i = next((j for j in range(i) if not_a_number(records[j].array)), i)
            last = _last_right(records[:i], matches[:i])
            expected = public(true[known.step] if known.step < len(true) else None, known.name)
            return Finding(_place(records, i, expected, last, rank), rank)
    until = None if shown is None else _bound(records, shown)
    if shown is None or until is None:
        return _by_absence(records, matches, true, right)
    records, matches = records[: until + 1], matches[: until + 1]
    found = _by_absence(records, matches, true, right)
    itself = place_of(records[until])
    if (
        found is None
        or found.place is None
        or (found.place.line, found.place.variable) == (itself.line, itself.variable)
    ):
        return Finding(_place(records, until, shown.name, _last_right(records, matches), 0), 0)
    return found


def _bound(records: Sequence[Record], shown: WrongTensor) -> int | None:
    """The record that binds a tensor that the target shows first; None where it is bound in no line."""
    values = content(shown.array)
    return next(
        (
            i
            for i, record in enumerate(records)
            if record.step in (None, shown.step)
            and record.array.size == shown.array.size
            and content(record.array) == values
        ),
        None,
    )


def not_a_number(array: Array) -> bool:
    """Whether there is a NaN in an array."""
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def edited(records: Sequence[Record], inputs: Sequence[Array]) -> Finding | None:
    """The first array given to the target that a statement changes in place."""
    given = {content(array) for array in inputs}
    sizes = {array.size for array in inputs}
    bound: dict[tuple[str, str], bytes] = {}
    for record in records:
        key = (record.function, record.variable)
        before = bound.get(key)
        now = content(record.array)
        if now not in given and edits(record) and (before in given if before else record.array.size in sizes):
            return Finding(place_of(record), 0)
        bound[key] = now
    return None


def edits(record: Record) -> bool:
    """Whether a statement changes its variable in place."""
    try:
        (statement,) = ast.parse(record.text.strip()).body
    except (SyntaxError, ValueError):
        return False
    if not isinstance(statement, ast.AugAssign):
        return False
    return isinstance(statement.target, ast.Name) and statement.target.id == record.variable


def _last_right(records: Sequence[Record], matches: Sequence[Known | None]) -> tuple[int, Known] | None:
    """The record that matches what the program makes last, the earliest of several."""
    found = [(known.order, -i, known) for i, known in enumerate(matches) if known is not None]
    if not found:
        return None
    _, i, known = max(found, key=lambda f: f[:2])
    return -i, known


def _by_absence(
    records: Sequence[Record], matches: Sequence[Known | None], true: Sequence[Tensors], right: Index
) -> Finding | None:
    """The first array that is a tensor's values in another order, where they never stand in the right one.

    Without such a one, after the furthest right tensor, the first array of a tensor's size that is none
    of the program's.
    """
    seen = {known.name for known in matches if known is not None}
    for i, record in enumerate(records):
        other = right.scrambled(record.array, record.step) if matches[i] is None else None
        if other is not None and other.name not in seen:
            return Finding(_place(records, i, other.name, _last_right(records[:i], matches[:i]), 0), 0)
    last = _last_right(records, matches)
    name = last[1].name if last else ""
    order = {tap: i for i, tap in enumerate(name for step in true for name in step.inner)}
    furthest = max(
        (i for i, known in enumerate(matches) if known is not None and known.name == name), default=-1
    )
    following = [tap for tap, i in order.items() if "~" not in tap and i > order.get(name, -1)]
    # A part of something still to come (a row of positions) is no tensor that could be wrong.
    whole = {t.array.size for step in true for t in {**step.taps, **step.outputs}.values()}
    whole |= {t.array.size for step in true for name, t in step.inner.items() if ":" not in name}
    # What only has another name (heads side by side) is there already.
    there = {content(known.tensor) for known in matches if known is not None and known.whole}
    taps = {name: t.array for step in true for name, t in {**step.taps, **step.outputs}.items()}
    entry = {record.step: record.function for record in records}
    sound = {
        line_of(record)
        for record, known in zip(records, matches, strict=True)
        if known is not None and record.function != entry[record.step]
    }
    for i in range(furthest + 1, len(records)):
        record = records[i]
        if line_of(record) in sound or matches[i] is not None:
            continue
        if record.array.dtype.kind == "f" and record.array.size in whole:
            expected = next(
                (
                    tap
                    for tap in following
                    if tap in taps and taps[tap].size == record.array.size and content(taps[tap]) not in there
                ),
                "",
            )
            return Finding(_place(records, i, expected, last, 0), 0)
    return None


def _place(
    records: Sequence[Record], i: int, expected: str, last: tuple[int, Known] | None, rank: int
) -> Place:
    """Where a record was made, what it should have been, and the last tensor that was right."""
    right = None
    if last is not None:
        where, known = last
        right = replace(place_of(records[where]), expected=spoken(known.name))
    return replace(place_of(records[i]), expected=spoken(expected), last_right=right, sure=rank)


def place_of(record: Record) -> Place:
    """Where a record was made."""
    return Place(record.file, record.line, record.text.strip(), record.variable)


def public(step: Tensors | None, name: str) -> str:
    """The name under which a reader knows a tensor: an argument `x` of a function within may be the layer's `norm1`."""
    inner = None if step is None else step.inner.get(name)
    if step is None or inner is None or "~" not in name:
        return name
    equal = [
        tap
        for tap, tensor in step.taps.items()
        if tensor.array.shape == inner.array.shape and np.array_equal(tensor.array, inner.array)
    ]
    return name if spoken(name) in equal else next(iter(equal), name)


def spoken(name: str) -> str:
    """A tensor's name for a reader: `layers.0.rope.angle~2` is the `layers.0.angle`."""
    if "~" not in name:
        return name
    *prefix, function, tensor = name.partition(":")[0].partition("~")[0].split(".")
    return ".".join([*prefix, function if tensor == RESULT else tensor])
