"""The report on a terminal or in a CI log.

The cause stands first; details follow. Without a terminal there are no control codes, with NO_COLOR no
colours, and where the stream cannot encode a character, something is written that it can.
"""

from __future__ import annotations

import codecs
import io
import re
import sys
from collections.abc import Callable
from typing import TextIO

from rich.console import Console
from rich.text import Text as Styled

from conformance.reports.painter import Painter
from conformance.reports.progress import Progress
from conformance.reports.reading import report_of
from conformance.reports.words import say
from conformance.results.store import Results

__all__ = ["Progress", "draw", "show"]

WIDTH = 100
"""Longer lines are hard to read, however wide the window is."""

_PLAIN = str.maketrans({
    "→": "->", "…": "...", "·": ".", "√": "sqrt ", "×": "x", "−": "-", "–": "-", "—": "-", "≤": "<=", "≥": ">=",
    "≠": "!=", "∞": "inf", "θ": "theta", "π": "pi", "σ": "sigma", "∈": "in", "∑": "sum", "←": "<-", "“": '"',
    "”": '"', "‘": "'", "’": "'", "²": "^2",
})  # fmt: skip


_TRAILING = re.compile(r" +$", re.MULTILINE)


def show(
    results: Results, lang: str = "en", stream: TextIO | None = None, quiet: bool = False,
    page: str = "report.html",
) -> None:  # fmt: skip
    """Writes the summary of a run.

    Args:
        results: what was read from `results.jsonl`.
        lang: en or zh.
        stream: where to, by default stdout.
        quiet: the verdict's sentence alone.
        page: how to call the full report, where something is left out here.

    Raises:
        OSError: the stream cannot be written.
    """
    report = report_of(results)
    draw(lambda console, lang: Painter(console, report, lang, page).paint(quiet), lang, stream)


def draw(paint: Callable[[Console, str], None], lang: str, stream: TextIO | None = None) -> None:
    """Writes what `paint` draws on a console, in `lang` or in a language that the stream can encode.

    Raises:
        OSError: the stream cannot be written.
    """
    stream = sys.stdout if stream is None else stream
    encoding = _encoding(stream)
    notice = ""
    if lang == "zh" and not _encodes("中", encoding):
        lang, notice = "en", say("other language", "en", encoding=encoding)
    drawn = io.StringIO()
    console = _console(stream, drawn)
    if notice:
        console.print(Styled(notice, "dim"))
    paint(console, lang)
    text = _TRAILING.sub("", drawn.getvalue())
    if not _encodes(text, encoding):
        text = text.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    stream.write(text)
    stream.flush()


def _console(stream: TextIO, drawn: TextIO) -> Console:
    """A console that draws into memory as it would onto the stream."""
    real = Console(file=stream)
    terminal = real.is_terminal and not real.is_dumb_terminal
    return Console(
        file=drawn, force_terminal=terminal, width=min(real.width, WIDTH), highlight=False, markup=False, emoji=False,
        color_system="auto" if terminal else None, legacy_windows=False, soft_wrap=False,
    )  # fmt: skip


def _encoding(stream: TextIO) -> str:
    """The name of a stream's encoding: UTF-8 where it has none, ASCII where nobody knows the one it has."""
    name = getattr(stream, "encoding", None) or "utf-8"
    try:
        codecs.lookup(name)
    except LookupError:
        return "ascii"
    return str(name)


def _encodes(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
