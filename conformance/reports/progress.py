"""How far a run has got, while it goes on."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from conformance.reports import plain
from conformance.reports.model import position
from conformance.reports.words import say
from conformance.results.records import BROKEN

if TYPE_CHECKING:
    from rich.progress import Progress as Bars


class Progress:
    """Counts per rung while a run goes on: on stderr, and only where that is a terminal."""

    def __init__(self, lang: str = "en", stream: TextIO | None = None, quiet: bool = False) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._lang = lang
        self._shown = not quiet and is_terminal(self._stream)
        self._bars: Bars | None = None
        self._tasks: dict[str, Any] = {}
        self._broken: dict[str, int] = {}

    def start(self, totals: Mapping[str, int]) -> None:
        """Begins, with the number of verdicts to come on each rung."""
        if not self._shown:
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        console = Console(file=self._stream, highlight=False)
        self._bars = Bars(
            TextColumn("{task.description}", markup=False), BarColumn(28), MofNCompleteColumn(),
            TextColumn("{task.fields[broken]}", style="red", markup=False), TimeElapsedColumn(),
            console=console, transient=True,
        )  # fmt: skip
        width = max((_cells(say(rung, self._lang)) for rung in totals), default=0)
        for rung in sorted(totals, key=position):
            name = say(plain.line(rung, plain.NAME), self._lang)
            label = name + " " * (width - _cells(name))
            self._tasks[rung] = self._bars.add_task(label, total=totals[rung], broken="", start=False)
        self._bars.start()

    def advance(self, verdict_line: Mapping[str, Any]) -> None:
        """One more verdict, as a line of the results file; lines of other kinds are passed over."""
        task = self._tasks.get(verdict_line.get("rung", ""))
        if self._bars is None or task is None or verdict_line.get("kind") != "verdict":
            return
        rung = verdict_line["rung"]
        if rung not in self._broken:
            self._broken[rung] = 0
            self._bars.start_task(task)
        if verdict_line.get("verdict") in BROKEN:
            self._broken[rung] += 1
            self._bars.update(task, broken=f"{self._broken[rung]} {say('fail', self._lang)}")
        self._bars.advance(task)

    def stop(self) -> None:
        """Takes it off the screen; what follows stands in its place. May be called twice."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None

    def __enter__(self) -> Self:
        """The progress itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stops."""
        self.stop()


def is_terminal(stream: TextIO) -> bool:
    """Whether a stream can show a line that changes."""
    try:
        return stream.isatty() and os.environ.get("TERM", "") != "dumb"
    except (AttributeError, ValueError):
        return False


def _cells(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)
