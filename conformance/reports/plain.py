"""Text of strangers, made harmless before any renderer sees it.

A submission chooses its error messages, its prints, its file names and the text of its lines. Whatever
they hold, a report neither grows without bound, nor moves a cursor, nor shows a line in another order
than it was written in. Markup is not dealt with here: each renderer escapes its own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from conformance.language.program import Text
from conformance.told import told

NAME = 160
"""Characters of an id, a path, a number."""
SENTENCE = 700
"""Characters of a title, a summary, what a document says."""
CODE = 6_000
"""Characters of a snippet or of what was printed."""
LINES = 120
"""Lines of them."""

_LINE_ENDS = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_SPACES = re.compile(r"\s+")
_JOINERS = "\u200c\u200d"  # they join or part their neighbours, which some scripts need, and do nothing else
_STACKED = 4  # marks on one letter: more than any script needs, fewer than hide the line above


def line(value: object, limit: int = SENTENCE) -> str:
    r"""One line of at most `limit` characters; invisible ones are spelled out, like `\x1b`."""
    return _line(_cut(_text(value), limit * 2), limit)  # what follows may shrink it, hence twice


@lru_cache(maxsize=8192)
def _line(text: str, limit: int) -> str:
    """Most lines of a report stand in others too: of the same claim, case or dtype."""
    return _cut(_visible(_SPACES.sub(" ", _LINE_ENDS.sub(" ", text)).strip()), limit)


def block(value: object, limit: int = CODE, lines: int = LINES) -> str:
    """Several lines, the first and the last of them when there are too many; tabs are four columns."""
    text = _text(value)
    if len(text) > limit:
        text = f"{text[: limit // 2]}\n… {len(text) - limit // 2 * 2} characters left out …\n{text[-(limit // 2) :]}"
    rows = [_visible(row.expandtabs(4)).rstrip() for row in _LINE_ENDS.split(text)]
    while rows and not rows[-1]:
        rows.pop()
    while rows and not rows[0]:
        rows.pop(0)
    if len(rows) > lines:
        kept = lines // 2
        rows = [*rows[:kept], f"… {len(rows) - 2 * kept} lines left out …", *rows[-kept:]]
    return "\n".join(rows)


def both(value: object, limit: int = SENTENCE) -> Text:
    """A text in both languages; one that is there in one language stands for both, unless it is known."""
    if not isinstance(value, Mapping):
        text = _cut(_text(value), limit * 2)
        return Text(line(text, limit), line(told(text).zh, limit))
    en, zh = line(value.get("en"), limit), line(value.get("zh"), limit)
    return Text(en or zh, zh or en)


def number(value: object, digits: int = 7) -> str:
    """A number as a person reads it: so many digits, and the words for what is none."""
    match value:
        case bool():
            return str(value)
        case int() if abs(value) < 10**15:
            return str(value)
        case float() | int():
            try:
                return f"{float(value):.{digits}g}"
            except OverflowError:
                return "Infinity" if value > 0 else "-Infinity"
        case _:
            return line(value, NAME)


def real(value: object) -> float | None:
    """A number of a results file, in which those that JSON lacks are words; None for anything else."""
    match value:
        case bool() | None:
            return None
        case int() | float() | "NaN" | "Infinity" | "-Infinity":
            try:
                return float(value)
            except OverflowError:
                return float("inf")
        case _:
            return None


def _text(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else str(value)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _visible(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    stacked = 0
    for character in text:
        kind = unicodedata.category(character)
        stacked = stacked + 1 if kind in ("Mn", "Me") else 0
        if stacked > _STACKED:
            continue
        harmless = kind[0] not in "CZ" or character in _JOINERS or character == " "
        shown.append(character if harmless else " " if kind == "Zs" else _spelled(character))
    return "".join(shown)


def _spelled(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def strings(value: Any, limit: int = NAME, most: int = 64) -> tuple[str, ...]:
    """A list of short strings; () for what is no list."""
    return tuple(line(item, limit) for item in value[:most]) if isinstance(value, list | tuple) else ()
