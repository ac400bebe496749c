"""Feedback without answers: how much of what was expected a report shows.

A course that grades does not hand out the numbers with the marks: with `hint` a report names the
mistake, the tensor, the place and the statement; with `none` it names what does not hold. It is applied
to the lines before any renderer sees them, so none can show what is not there. A claim whose text has
such a number in it, as one about numbers that the document prints, is shown without it. What a submission
says itself, such as its own exceptions, stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from conformance.reports.words import word
from conformance.results.records import jsonable
from conformance.results.store import Results

Reveal = Literal["none", "hint", "full"]
LEVELS: tuple[str, ...] = get_args(Reveal)


def revealed(results: Results, level: str) -> Results:
    """The results with no more in them than `level` ('none', 'hint' or 'full') lets through."""
    if level == "full":
        return results
    end = results.end
    secret = frozenset(_secrets(results))
    if end is not None:
        end = _masked(end, secret)
    if end is not None and level == "none":
        end = {name: value for name, value in end.items() if name not in ("cause", "causes", "trace_notes")}
    claims = {name: _masked(line, secret) for name, line in results.claims.items()}
    run = _masked(results.run, secret)
    if level == "none":
        claims = {name: {**line, "equation": None} for name, line in claims.items()}
        run = {name: value for name, value in run.items() if name != "flow"}
    return replace(
        results,
        run=run,
        end=end,
        claims=claims,
        verdicts=tuple(_masked(_verdict(line, level), secret) for line in results.verdicts),
    )


_NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?:[eE][-+]?\d+)?")
_DIGITS = 4
"""Significant digits from which on a number is no common one, such as 0.5."""
MASK = "…"
PLAIN = ("where", "reproduce", "printed", "environment")
"""Fields that a submission, or its machine, fills."""


def _secrets(results: Results) -> Iterator[str]:
    """Numbers that were expected, and those that a claim speaks of, in one way of writing.

    Of every claim, also of one that passed, or that raised before there was anything to compare.
    """
    for line in results.claims.values():
        for text in (line.get("equation"), *map(line.get, ("title", "says"))):
            yield from _written(str(text)[:4000])
    for line in results.verdicts:
        evidence = line.get("evidence")
        if isinstance(evidence, Mapping):
            yield from _written(str(evidence.get("expected")))
            yield from _written(str(evidence.get("tensor"))[:1000])


def _written(text: str) -> Iterator[str]:
    for found in _NUMBER.finditer(text):
        number = f"{float(found[0]):.6g}"
        if sum(digit.isdigit() for digit in number.lstrip("0.")) >= _DIGITS:
            yield number


def _masked(line: Any, secret: frozenset[str]) -> Any:
    """The line without these numbers in any text but a stranger's."""
    if not secret:
        return line
    match line:
        case str():
            return _NUMBER.sub(lambda found: MASK if f"{float(found[0]):.6g}" in secret else found[0], line)
        case Mapping():
            return {key: value if key in PLAIN else _masked(value, secret) for key, value in line.items()}
        case list() | tuple():
            return [_masked(item, secret) for item in line]
    return line


def _verdict(line: Mapping[str, Any], level: str) -> Mapping[str, Any]:
    shown = {name: value for name, value in line.items() if name != "profiles"}
    shown |= {"reproduce": "", "margin": None, "close": False, "evidence": None}
    evidence = line.get("evidence")
    if line.get("verdict") in ("fail", "waived"):
        shown["summary"] = jsonable(word("withheld"))
        if level == "hint" and isinstance(evidence, Mapping):
            shown["summary"] = _where(evidence)
    if level == "none":
        shown |= {"diagnosis": [], "where": None}
    return shown


def _where(evidence: Mapping[str, Any]) -> Any:
    index = evidence.get("index")
    if not isinstance(index, Mapping) or not index:
        return jsonable(word("withheld tensor", tensor=evidence.get("tensor")))
    place = ", ".join(f"{axis} {i}" for axis, i in list(index.items())[:16])
    return jsonable(word("withheld place", tensor=evidence.get("tensor"), place=place))
