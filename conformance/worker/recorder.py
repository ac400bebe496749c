"""What was seen of a submission's arrays, within a budget: where each was made, and its values.

Whoever sees arrays (`tracer.py` for names and returned values) adds them here. Equal contents are
stored once. The parent gets a table of places as JSON and two arrays: rows of (place, kind, where
its bytes begin, step), in the order of execution, and all the bytes.
"""

from __future__ import annotations

import time
from array import array as numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy import empty, frombuffer, int64, uint8

from .failures import MAX_FILE, Sources
from .frameworks import NumPy
from .statements import Table, statements

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

SMALLEST = 2  # elements; scalars are no arrays for our purpose
MAX_STRING = 200
MAX_NOTES = 20
MAX_NOTE = 500
MAX_JSON = 400_000  # characters that places, kinds and notes may have, estimated
ALIGN = 16
NO_STEP = -1

_now = time.perf_counter


class Content(NamedTuple):
    """Values of an array as they are now: index of its dtype and shape, hash, bytes."""

    kind: int
    hash: int
    raw: bytes


class Recorder:
    """Arrays and where they were made. `active` ends with the budget, and then nothing is added."""

    def __init__(
        self, sources: Sources, framework: NumPy, tables: dict[str, Table], budget: Mapping[str, Any]
    ) -> None:
        """A recorder with nothing in it yet.

        Args:
            sources: which files are the submission's.
            framework: what its arrays are.
            tables: the statements of its files, as far as they are known; more will be added.
            budget: 'arrays', 'each' and 'total' bytes, 'seconds', 'per_place'; 'dispatch', whether
                single results of a framework are recorded too.
        """
        self.active = True
        self.looking = False  # at an array: what that computes is not the submission's
        self.dispatched = bool(budget.get("dispatch"))
        self.step: int | None = None
        self.framework = framework
        self.sources = sources
        self._budget = budget
        self._until: float | None = None
        self._left = MAX_JSON
        self._notes: dict[Any, str] = {}
        self._tables = tables
        self._kinds: dict[tuple[str, tuple[int, ...]], int] = {}
        self._strings: dict[str, int] = {}
        self._places: dict[tuple[str, int, str, str], int] = {}
        self._lines: list[list[int]] = []  # of each place: the line, and four strings
        self._counts: list[int] = []  # arrays of each place
        self._seen: set[tuple[int, int | None, int, int]] = set()
        self._stored: dict[tuple[int, int], int] = {}  # where the bytes of a content begin
        self._given: set[tuple[int, int]] = set()
        self._unnamed: dict[tuple[Any, ...], int] = {}  # rows of results that may yet get a name
        self._rows = numbers("q")
        self._bytes = bytearray()

    def in_time(self) -> bool:
        """Whether more may be recorded; the time counts from the first question."""
        now = _now()
        if self._until is None:
            self._until = now + float(self._budget["seconds"])
        if now > self._until:
            self._exhausted(f"{self._budget['seconds']:g} s")
        return self.active

    def table(self, file: str) -> Table:
        """The statements of a file, {} where its source cannot be had."""
        found = self._tables.get(file)
        if found is None:
            found = self._tables[file] = statements(self.sources.text(file))
        return found

    def content(self, value: Any, where: str = "") -> Content | None:
        """The values of an array; None when they are too few or too many, or no numbers."""
        each = self._budget["each"]
        self.looking = True
        try:
            seen = self.framework.bytes_of(value, SMALLEST, each)
        except Exception:  # an array of objects, or one that defends itself
            return None
        finally:
            self.looking = False
        if seen is None:
            return None
        wire, shape, raw = seen
        if raw is None:
            size = "x".join(str(length) for length in shape)
            self.note(f"arrays of more than {each >> 10} KiB are left out, such as {where} ({size})", "large")
            return None
        kind = self._kinds.get((wire, shape))
        if kind is None:
            kind = self._kinds.setdefault((wire, shape), len(self._kinds))
            self._spend(10 + 8 * len(shape))
        return Content(kind, hash(raw), raw)

    def give(self, content: Content) -> None:
        """Remembers that a content was given to the submission: it did not make it."""
        self._given.add((content.kind, content.hash))

    def knows(self, content: Content) -> bool:
        """Whether a content was given or recorded before."""
        key = (content.kind, content.hash)
        return key in self._stored or key in self._given

    def add(
        self,
        file: str,
        line: int,
        function: str,
        variable: str,
        content: Content,
        unnamed: bool = False,
    ) -> None:
        """Records an array that has come into being at a line.

        One that is `unnamed`, a result in the middle of a statement, gets the name that the statement
        then gives to the same values, and stays one record.
        """
        if not self.active:
            return
        key = (file, line, function, variable)
        place = self._places.get(key)
        if place is None:
            place = self._new_place(*key)
        seen = (place, self.step, content.kind, content.hash)
        if seen in self._seen or self._counts[place] >= self._budget["per_place"]:
            return
        result = (file, line, function, self.step, content.kind, content.hash)
        row = None if unnamed else self._unnamed.pop(result, None)
        if row is not None:
            self._seen.add(seen)
            self._counts[place] += 1
            self._rows[row] = place
            return
        if len(self._rows) // 4 >= self._budget["arrays"]:
            self._exhausted(f"{self._budget['arrays']} arrays")
            return
        start = self._stored.get(seen[2:])
        if start is None:
            start = len(self._bytes)
            if start + len(content.raw) + ALIGN > self._budget["total"]:
                self._exhausted(f"{self._budget['total'] >> 20} MiB of arrays")
                return
            self._bytes += content.raw + bytes(-len(content.raw) % ALIGN)
            self._stored[seen[2:]] = start
        self._seen.add(seen)
        self._counts[place] += 1
        if unnamed:
            self._unnamed[result] = len(self._rows)
        self._rows.extend((place, content.kind, start, NO_STEP if self.step is None else self.step))

    def note(self, text: str, key: str = "") -> None:
        """Adds a sentence for the reader; of those with the same `key` only the first."""
        if len(self._notes) < MAX_NOTES:
            self._notes.setdefault(key or text, text[:MAX_NOTE])

    def finish(self) -> tuple[dict[str, Any], list[Array]]:
        """JSON of the places, and the two arrays."""
        self.active = False
        rows = frombuffer(self._rows, int64) if self._rows else empty(0, int64)
        values = frombuffer(self._bytes, uint8) if self._bytes else empty(0, uint8)
        self._bytes = bytearray()  # a frame that lives on must not keep them
        meta = {
            "strings": list(self._strings),
            "places": self._lines,
            "kinds": [[wire, list(shape)] for wire, shape in self._kinds],
            "rows": len(rows) // 4,
            "bytes": len(values),
            "notes": list(self._notes.values()),
        }
        return meta, [rows, values]

    def _new_place(self, file: str, line: int, function: str, variable: str) -> int:
        statement = self.table(file).get(line)
        last = line if statement is None else statement.last
        text = self.sources.lines(file, line, last)
        strings = (file[:MAX_FILE], text[:MAX_STRING], function[:MAX_STRING], variable[:MAX_STRING])
        self._spend(40)
        self._lines.append([line, *map(self._string, strings)])
        self._counts.append(0)
        place = self._places[file, line, function, variable] = len(self._lines) - 1
        return place

    def _string(self, text: str) -> int:
        text = text.encode("utf-8", "replace").decode("utf-8")  # no lone surrogates
        if text not in self._strings:
            self._spend(4 + (len(text) if text.isascii() and text.isprintable() else 6 * len(text)) * 2)
        return self._strings.setdefault(text, len(self._strings))

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            self._exhausted(f"{len(self._places)} places")

    def _exhausted(self, what: str) -> None:
        if self.active:
            self.active = False
            self._notes["budget"] = f"the trace ran out of its budget after {what}"
