"""Feedback without answers: how much of what was expected a report shows.

A course that grades does not hand out the numbers with the marks: with `hint` a report names the
mistake, the tensor, the place and the statement; with `none` it names what does not hold. It is applied
to the lines before any renderer sees them, so none can show what is not there. What a submission says
itself, such as its own exceptions, stays.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    if end is not None and level == "none":
        end = {name: value for name, value in end.items() if name not in ("cause", "causes", "trace_notes")}
    claims, run = results.claims, results.run
    if level == "none":
        claims = {name: {**line, "equation": None} for name, line in claims.items()}
        run = {name: value for name, value in run.items() if name != "flow"}
    return replace(
        results,
        run=run,
        end=end,
        claims=claims,
        verdicts=tuple(_verdict(line, level) for line in results.verdicts),
    )


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
