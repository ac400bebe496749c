"""How far the grading of many has got: one line that changes on a terminal, a line for each that ends elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text as Styled

from conformance.reports import plain
from conformance.reports.entries import OUTCOMES, Entry
from conformance.reports.progress import is_terminal
from conformance.reports.terminal import draw
from conformance.reports.words import pick, say

EVERY = 0.2
WHY = 160
"""Characters of a reason in a line."""
STYLES = dict(zip(OUTCOMES, ("green", "bold red", "yellow", "magenta"), strict=True))


class GradingProgress:
    """Rows as they end on stdout; what is going on, with an estimate, on a terminal's stderr."""

    def __init__(self, lang: str, total: int, *, rows: bool, stream: TextIO | None = None) -> None:
        """`rows` is whether a line is printed for each submission that ends."""
        self._lang, self._total, self._rows = lang, total, rows
        self._stream = sys.stderr if stream is None else stream
        self._live = is_terminal(self._stream)
        self._begun = time.monotonic()
        self._shown = 0.0
        self._width = 0

    def ended(self, entry: Entry) -> None:
        """A line for a submission."""
        if not self._rows:
            return
        self.clear()
        draw(lambda console, lang: console.print(row_line(entry, lang), soft_wrap=True), self._lang)

    def watch(self, done: int, fractions: Sequence[float], names: Sequence[str]) -> None:
        """How far it is: those that ended, how much of each of the others is done, and their names."""
        now = time.monotonic()
        if not self._live or now - self._shown < EVERY:
            return
        self._shown = now
        part = (done + sum(fractions)) / max(self._total, 1)
        left = (now - self._begun) * (1 - part) / part if part > 0.005 else None
        estimate = "" if left is None else " · " + say("about left", self._lang, time=_duration(left))
        text = f"{done}/{self._total}{estimate} · {', '.join(plain.line(name, 40) for name in names)}"
        self._draw(text)

    def clear(self) -> None:
        """Takes the line off the screen."""
        if self._width:
            self._stream.write(f"\r{' ' * self._width}\r")
            self._stream.flush()
            self._width = 0

    def _draw(self, text: str) -> None:
        room = max(Console(file=self._stream).width - 1, 10)
        text = set_cell_size(text, room).rstrip() if cell_len(text) > room else text
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        text = text.encode(encoding, "replace").decode(encoding)
        self.clear()
        self._stream.write(f"\r{text}")
        self._stream.flush()
        self._width = cell_len(text)


def row_line(entry: Entry, lang: str) -> Styled:
    """`alice.py  does not conform  12 broken  scale-by-model-width`."""
    why = (
        ", ".join(cause.mistakes[0] for cause in entry.causes[:3])
        or pick(entry.reason, lang)
        or pick(entry.error, lang)
        or entry.first
    )
    broken = say("n broken", lang, n=entry.broken) if entry.broken else ""
    why = why if len(why) <= WHY else why[: WHY - 1] + "…"
    parts = [entry.name, say(entry.outcome, lang), broken, why]
    line = Styled()
    for part, style in zip(parts, ("", STYLES[entry.outcome], "", "dim"), strict=True):
        if part:
            line.append("  " if line else "").append(part, style)
    return line


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
