"""The first NaN or Inf: in which array, on which line, and of what it was made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from conformance.language.arithmetic import Array
from conformance.language.program import Text
from conformance.session.tracing import Record

MOST = 3
"""Inputs that are named."""


def first(records: Sequence[Record]) -> tuple[Text, Record] | None:
    """The first array that is not finite, with a sentence about it; None where all are.

    -inf is what hides a key and no fault by itself: it counts where nothing else is found.
    """
    for grave in (True, False):
        for i, record in enumerate(records):
            what = kind_of(record.array, grave)
            if what:
                return sentence(record, what, list(made_of(records, i))), record
    return None


def kind_of(array: Array, grave: bool) -> str:
    """`NaN`, `Inf` or `-Inf`, the gravest in an array; '' for none. Without `grave` only the last."""
    if array.dtype.kind != "f":
        return ""
    if not grave:
        return "-Inf" if np.isneginf(array).any() else ""
    if np.isnan(array).any():
        return "NaN"
    return "Inf" if np.isposinf(array).any() else ""


def made_of(records: Sequence[Record], i: int) -> Iterator[Record]:
    """What the statement that made a record mentions, as it was last bound in the same function."""
    record = records[i]
    found: set[str] = set()
    for other in reversed(records[:i]):
        root = (
            re.split(r"[.\[]", other.variable)[0]
            if not other.variable.startswith("self.")
            else other.variable
        )
        same = other.function == record.function and other.file == record.file and other.step == record.step
        if same and root not in found and re.search(rf"(?<![\w.]){re.escape(root)}(?!\w)", record.text):
            found.add(root)
            yield other
        if len(found) == MOST:
            return


def sentence(record: Record, what: str, inputs: Sequence[Record]) -> Text:
    """Which, where, and from what, in both languages."""
    line = record.text.strip()
    en = f"{what} first appears in `{record.variable}`, line {record.line}: `{line}`"
    zh = f"{what} 最早出现在 `{record.variable}`，第 {record.line} 行：`{line}`"
    if inputs:
        en += ", from " + " and ".join(f"`{r.variable}` (line {r.line}, {ranged(r.array)})" for r in inputs)
        zh += (
            "，由 "
            + "、".join(f"`{r.variable}`（第 {r.line} 行，{ranged(r.array)}）" for r in inputs)
            + " 得出"
        )
    return Text(en, zh)


def ranged(array: Array) -> str:
    """The values that an array lies between, `-Inf … 3.2`."""
    if array.dtype.kind == "b":
        return "bool"
    numbers = array[~np.isnan(array)] if array.dtype.kind == "f" else array
    shown = f"{numbers.min():.3g} … {numbers.max():.3g}" if numbers.size else ""
    missing = "NaN" if numbers.size < array.size else ""
    return ", ".join(part for part in (shown, missing) if part)
