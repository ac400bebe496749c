"""What a traced call recorded: every array that the submission made, and the line that made it.

All of it comes from the submission's process. The parent bounds what it reads and checks that it
has the form that the protocol gives it; the values are only ever compared.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.session.answers import MAX_DIMENSIONS, Malformed
from conformance.session.outcomes import Crashed, Outcome, Raised, Returned, TimedOut
from conformance.worker.protocol import ALIGN, padded

BUDGET: Mapping[str, Any] = {
    "seconds": 3.0,
    "arrays": 20_000,
    "each": 256 << 10,
    "total": 64 << 20,
    "per_place": 2000,
    "dispatch": True,
}
"""What one trace may use: seconds, arrays, bytes of each and of all, and arrays of one variable at one line;
and whether it looks at each result of PyTorch, not only at those that get a name."""

_WIRE = ("<f2", "<f4", "<f8", "<i8", "|b1")
_COLUMNS = 4  # of a row: place, kind, where its bytes begin, step


@dataclass(frozen=True, eq=False)
class Record:
    """An array as it was when a statement of the submission had made it.

    Attributes:
        file: the submission's file, as Python has it.
        line: first line of the statement.
        text: the statement, or as much of it as is shown; '' when its source could not be had.
        function: qualified name of the function.
        variable: the name bound or edited: `s`, `heads[0]`, `cache['k']`, `self.keys`; 'return' or
            'yield' for a value handed back; `softmax(x)` for an argument made in a call. Of PyTorch,
            `torch.softmax` for a result without a name, of a library that the line calls too;
            `torch.scaled_dot_product_attention.weights` for what a fused kernel had inside.
        array: its values, read-only; float, int64 or bool.
        step: of a model, which step, from 0; None while it is constructed and for operations.
    """

    file: str
    line: int
    text: str
    function: str
    variable: str
    array: npt.NDArray[Any]
    step: int | None = None


@dataclass(frozen=True, eq=False)
class Trace:
    """All records in the order of execution, what the trace could not see, and what came of the call."""

    records: tuple[Record, ...]
    notes: tuple[str, ...]
    outcome: Outcome


class Recording:
    """One trace under way: what it may use, and what has come of it so far."""

    def __init__(self, seconds: float | None = None, *, dispatch: bool = True) -> None:
        self.budget = {**BUDGET, "dispatch": dispatch}
        if seconds is not None:
            self.budget["seconds"] = seconds
        self._meta: Mapping[str, Any] = {}
        self._records: tuple[Record, ...] = ()
        self._notes: tuple[str, ...] = ()

    def announced(self, meta: Any, position: int, positions: list[int], table: list[list[Any]]) -> int:
        """Adds the two arrays of a trace to what will be asked for; returns their bytes.

        `position` is that of the first of them. Raises Malformed.
        """
        if not isinstance(meta, dict):
            raise Malformed
        rows, size = meta.get("rows"), meta.get("bytes")
        if type(rows) is not int or type(size) is not int:
            raise Malformed
        if not 0 <= rows <= self.budget["arrays"] or not 0 <= size <= self.budget["total"]:
            raise Malformed
        self._meta = meta
        positions += [position, position + 1]
        table += [["<i8", (rows, _COLUMNS)], ["|u1", (size,)]]
        return padded(rows * _COLUMNS * 8) + padded(size)

    def received(self, arrays: list[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Takes the trace's two arrays off the end, and makes the records. Raises Malformed."""
        *others, rows, values = arrays
        values.flags.writeable = False
        notes = self._strings("notes")
        strings = self._strings("strings")
        try:
            places = [tuple(int(n) for n in place) for place in self._meta["places"]]
            kinds = [(str(wire), tuple(int(n) for n in shape)) for wire, shape in self._meta["kinds"]]
            if rows.size and rows[:, :3].min() < 0:
                raise Malformed
            self._records = tuple(
                _record(strings, places[place], kinds[kind], values, start, step)
                for place, kind, start, step in rows.tolist()
            )
        except (KeyError, IndexError, TypeError, ValueError, OverflowError):
            raise Malformed from None
        self._notes = notes
        return others

    def trace(self, outcome: Outcome, usual: Outcome | None) -> Trace:
        """The trace, now that the call has ended; `usual` is what it gave without one, if known."""
        notes = self._notes
        if isinstance(outcome, Crashed | TimedOut):
            self._records = ()
            how = outcome.how if isinstance(outcome, Crashed) else f"no answer within {outcome.after:g} s"
            notes = (f"the traced call left no records: {how}",)
        elif usual is not None and not _same(outcome, usual):
            notes += ("under the trace the call gave something else than before",)
        return Trace(self._records, notes, outcome)

    def _strings(self, name: str) -> tuple[str, ...]:
        found = self._meta.get(name)
        if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
            raise Malformed
        return tuple(found)


def _record(
    strings: tuple[str, ...],
    place: tuple[int, ...],
    kind: tuple[str, tuple[int, ...]],
    values: npt.NDArray[Any],
    start: int,
    step: int,
) -> Record:
    """One record. Raises one of several errors for numbers that do not fit."""
    line, file, text, function, variable = place
    wire, shape = kind
    if wire not in _WIRE or len(shape) > MAX_DIMENSIONS or min((*shape, *place)) < 0:
        raise ValueError
    size = math.prod(shape) * np.dtype(wire).itemsize
    if start % ALIGN or start + size > values.size:
        raise ValueError
    array = values[start : start + size].view(wire).reshape(shape)
    return Record(
        strings[file],
        line,
        strings[text],
        strings[function],
        strings[variable],
        array,
        None if step < 0 else step,
    )


def _same(one: Outcome, other: Outcome) -> bool:
    """Whether two outcomes of a call say the same, NaN being equal to NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Raised) and isinstance(other, Raised):
        return one.type == other.type
    if not isinstance(one, Returned) or not isinstance(other, Returned):
        return True
    return all(
        mine.shapes == theirs.shapes
        and all(
            name in theirs.tensors and np.array_equal(array, theirs.tensors[name], equal_nan=True)
            for name, array in mine.tensors.items()
        )
        for mine, theirs in zip(one.outputs, other.outputs, strict=True)
    )
