"""A run as one JSON document: `{run, claims, verdicts, end, notes}`, with the lines as they stand in the file."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from typing import Any

from conformance.results.records import jsonable
from conformance.results.store import Results

LONGEST = 64 * 1024
"""Characters of one string; the contract bounds arrays likewise."""


def render(results: Results, lang: str = "en") -> str:
    """The document, with texts in both languages whatever `lang` is."""
    document = {
        "run": results.run,
        "claims": list(results.claims.values()),
        "verdicts": list(results.verdicts),
        "end": results.end,
        "notes": list(results.notes),
    }
    text = json.dumps(jsonable(_bounded(document)), ensure_ascii=False, allow_nan=False, indent=1)
    return safe_json(text)


def safe_json(text: str) -> str:
    """JSON in which no character steers a terminal or the order of text."""
    steering = [character for character in set(text) if _safe(character) != character]
    return text.translate({ord(character): _safe(character) for character in steering}) if steering else text


def _bounded(value: Any) -> Any:
    match value:
        case str() if len(value) > LONGEST:
            return f"{value[:LONGEST]}… {len(value) - LONGEST} characters left out"
        case Mapping():
            return {_bounded(str(key)): _bounded(item) for key, item in value.items()}
        case list() | tuple():
            return [_bounded(item) for item in value]
    return value


def _safe(character: str) -> str:
    """A character that steers a terminal or the order of text, in JSON's own notation.

    Such characters stand only within strings, where the notation means the same.
    """
    # DEL is the one that JSON leaves as it is, of those in ASCII.
    harmless = character.isascii() and character != "\x7f"
    if harmless or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return character
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
