"""A sentence that was said in English, as a text in both languages."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

from conformance.language.program import Text
from conformance.sentences import SENTENCES

LONGEST = 4_000
"""Characters of a sentence; a longer one is a stranger's."""
DEEPEST = 4
"""Sentences within sentences."""

_FIELD = re.compile(r"\{(\w+)\}")
_KINDS = re.compile(r"(an?) (list|tuple|dict|set|str|bytes|bool|int|float|complex)")


def told(sentence: str) -> Text:
    """The sentence in both languages; one that is not known stands for both."""
    found = _chinese(sentence, 0) if len(sentence) <= LONGEST else None
    return Text(sentence, sentence if found is None else found)


@functools.lru_cache(maxsize=1024)
def _chinese(sentence: str, depth: int) -> str | None:
    if depth > DEEPEST:
        return None
    kind = _KINDS.fullmatch(sentence)
    if kind is not None:
        return f"一个 {kind[2]}"
    for parts, template in _templates():
        found = _matched(parts, sentence)
        fields = None if found is None else _filled(found, depth + 1)
        if fields is not None:
            return _FIELD.sub(functools.partial(_field, fields), template)
    # `my_file.py: it raised …`
    subject, colon, rest = sentence.partition(": ")
    said = _chinese(rest, depth + 1) if colon and " " not in subject else None
    return None if said is None else f"{subject}：{said}"


def _field(fields: Mapping[str, str], found: re.Match[str]) -> str:
    return fields[found[1]]


def _matched(parts: Sequence[str], sentence: str) -> dict[str, str] | None:
    """What stands in the fields of a template, every second one of `parts`; None where it does not fit.

    Each piece between fields is looked for once, where it comes first: no text makes this slow.
    """
    first, last = parts[0], parts[-1]
    if not sentence.startswith(first) or not sentence.endswith(last):
        return None
    if len(parts) == 1:
        return {} if sentence == first else None
    fields, at, end = {}, len(first), len(sentence) - len(last)
    for name, piece in zip(parts[1:-2:2], parts[2:-1:2], strict=True):
        there = sentence.find(piece, at, end)
        if there < 0:
            return None
        fields[name] = sentence[at:there]
        at = there + len(piece)
    if at > end:
        return None
    fields[parts[-2]] = sentence[at:end]
    return fields


def _filled(fields: Mapping[str, str], depth: int) -> dict[str, str] | None:
    """The fields of a template in Chinese; None where one is no known sentence and has to be."""
    filled: dict[str, str] = {}
    for name, value in fields.items():
        if name in ("what", "how"):
            known = _chinese(value, depth)
            if known is None:
                return None
            filled[name] = known
        elif name == "list":
            filled[name] = "，".join(_chinese(part, depth) or part for part in value.split(", "))
        else:
            filled[name] = (_chinese(value, depth) if name == "why" else None) or value
    return filled


@functools.cache
def _templates() -> tuple[tuple[list[str], str], ...]:
    return tuple((_FIELD.split(english), chinese) for english, chinese in SENTENCES)
