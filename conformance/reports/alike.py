"""Errors that are one: a name that is misspelt is raised in every claim that calls the function, and is one thing to mend.

Only what gave no tensors is put together here. Two wrong results may have two causes, and their numbers
tell; two calls that raise the same in the same line, or of one function that never answers, have one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from conformance.reports.model import Graded, Verdict

_RAISED = re.compile(r"it raised ([^\s:(]+)")
_LINE = re.compile(r"\((?P<file>[^()]*), line (?P<line>\d+)\)$")
_PARTS = re.compile(r"[:;,]")


def error_of(verdict: Verdict) -> tuple[str, ...]:
    """What tells an error from others: () for a verdict that is none.

    Of an exception its type and its line, since messages differ in sizes; else what came of which function.
    """
    if verdict.verdict not in ("error", "timeout") or not verdict.summary.en:
        return ()
    said = verdict.summary.en
    if raised := _RAISED.match(said):
        line = _LINE.search(said)
        if line is None:
            return raised[1], said
        return raised[1], line["file"].rpartition("/")[2], line["line"]
    return (_PARTS.split(said)[0],)


def errors_of(item: Graded) -> tuple[tuple[str, ...], ...]:
    """The different errors of a claim."""
    return tuple(dict.fromkeys(error for v in item.broken if (error := error_of(v))))


def name_of(error: tuple[str, ...], claim: str) -> str:
    """How a report calls it, in any language: `NameError, model.py:28`, else the first claim that shows it."""
    return f"{error[0]}, {error[1]}:{error[2]}" if len(error) == 3 else claim


def alike(items: Sequence[Graded]) -> int:
    """In how many claims the error is seen that stands for the first of them; 0 where it is none."""
    error = error_of(items[0].worst) if items else ()
    return sum(error in errors_of(item) for item in items) if error else 0


def repeats(items: Sequence[Graded]) -> dict[str, str]:
    """Claims in which nothing is broken but by errors that one before them shows, each with the error's name."""
    names: dict[tuple[str, ...], str] = {}
    found: dict[str, str] = {}
    for item in items:
        errors = errors_of(item)
        if errors and all(error_of(v) in names for v in item.broken):
            found[item.claim.id] = names[errors[0]]
        else:
            for error in errors:
                names.setdefault(error, name_of(error, item.claim.id))
    return found
