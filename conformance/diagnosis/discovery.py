"""The line: where the arrays that a target computed leave the program, and what they should have been."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from conformance.diagnosis.matching import SMALLEST, Index, Known
from conformance.language.arithmetic import Array
from conformance.language.tensors import Named
from conformance.plan.scenario import Tensors
from conformance.results.records import Place
from conformance.session.tracing import Record

NEARER = 0.25
"""How much nearer a wrong tensor must be where both are within rounding: a wrong ε is as mild as that."""


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
