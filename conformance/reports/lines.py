"""Lines of a results file as parts of a report: bounded, harmless, and with nothing taken for granted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.reports import plain
from conformance.reports.model import Cause, Claim, Evidence, Mistake, Verdict, Where
from conformance.results.records import Profile

OVER = ("layer", "position")
POINTS = 512
"""Points of a chart; what lies behind is not drawn."""


def claim_of(line: Mapping[str, Any]) -> Claim:
    """A claim line."""
    tensors = line.get("tensors")
    return Claim(
        plain.line(line.get("id"), plain.NAME),
        plain.line(line.get("rung"), plain.NAME),
        plain.line(line.get("level"), plain.NAME),
        plain.strings(line.get("statements")),
        plain.line(line.get("question"), plain.NAME),
        plain.both(line.get("title")),
        plain.both(line.get("says")),
        plain.line(line.get("equation")),
        {plain.line(n, plain.NAME): plain.strings(a) for n, a in tensors.items()}
        if isinstance(tensors, Mapping)
        else {},
        plain.line(line.get("check"), plain.NAME),
    )


def verdict_of(line: Mapping[str, Any]) -> Verdict:
    """A verdict line."""
    found = line.get("diagnosis")
    return Verdict(
        plain.line(line.get("claim"), plain.NAME),
        plain.line(line.get("rung"), plain.NAME),
        plain.line(line.get("level"), plain.NAME),
        plain.line(line.get("case"), plain.NAME),
        plain.line(line.get("variant"), plain.NAME),
        plain.line(line.get("dtype"), plain.NAME),
        plain.line(line.get("verdict"), plain.NAME),
        plain.both(line.get("summary")),
        plain.real(line.get("margin")),
        line.get("close") is True,
        tuple(_mistake(d) for d in found[:8] if isinstance(d, Mapping)) if isinstance(found, list) else (),
        where_of(line.get("where")),
        _evidence(line.get("evidence")),
        plain.block(line.get("reproduce")),
        plain.line(line.get("consequence_of"), plain.NAME),
        _seconds(line.get("seconds")),
        _profiles(line.get("profiles")),
    )


def _profiles(found: object) -> tuple[Profile, ...]:
    """Those in which there is anything to be drawn."""
    lines = [line for line in found[:8] if isinstance(line, Mapping)] if isinstance(found, list) else []
    return tuple(p for p in map(_profile, lines) if p.over in OVER and any(m is not None for m in p.margins))


def _profile(line: Mapping[str, Any]) -> Profile:
    calls = line.get("calls")
    lengths = (
        [n for n in calls[:POINTS] if type(n) is int and 0 <= n <= POINTS] if isinstance(calls, list) else []
    )
    return Profile(
        plain.line(line.get("over"), 40),
        plain.strings(line.get("tensors"), 80, POINTS),
        _margins(line.get("margins")),
        line.get("local") is True,
        tuple(lengths),
        _margins(line.get("at_once")),
    )


def _margins(found: object) -> tuple[float | None, ...]:
    """Margins that are none, and negative ones, are not compared."""
    values = map(plain.real, found[:POINTS]) if isinstance(found, list) else ()
    return tuple(v if v is not None and v >= 0 else None for v in values)


def _seconds(value: object) -> float:
    found = plain.real(value)
    return found if found is not None and 0 <= found < 1e9 else 0.0


def _mistake(found: Mapping[str, Any]) -> Mistake:
    fit = plain.real(found.get("fit"))
    return Mistake(
        plain.line(found.get("mistake"), plain.NAME),
        plain.both(found.get("says")),
        "" if fit is None else f"{fit:.2g}",
    )


def cause_of(line: Mapping[str, Any]) -> Cause:
    """One of the causes of an end line."""
    return Cause(
        plain.strings(line.get("mistakes"), most=8),
        plain.both(line.get("says")),
        where_of(line.get("where")),
        plain.strings(line.get("claims"), most=10_000),
    )


def where_of(place: object) -> Where | None:
    """A place in the target; None for what names none."""
    if not isinstance(place, Mapping):
        return None
    names = [name for name in Where.__dataclass_fields__ if name != "last_right"]
    right = place.get("last_right")
    before = where_of({**right, "last_right": None}) if isinstance(right, Mapping) else None
    where = Where(**{name: plain.line(place.get(name), 300) for name in names}, last_right=before)
    return where if where.at or where.node else None


def _evidence(found: object) -> Evidence | None:
    if not isinstance(found, Mapping):
        return None
    index = found.get("index")
    pairs = list(index.items())[:16] if isinstance(index, Mapping) else []
    return Evidence(
        plain.line(found.get("tensor"), plain.NAME),
        ", ".join(f"{plain.line(axis, 40)} {plain.line(i, 40)}" for axis, i in pairs),
        plain.number(found.get("got")),
        plain.number(found.get("expected")),
        plain.number(found.get("tolerance"), 3),
        {plain.line(axis, 40): i for axis, i in pairs if isinstance(i, int)},
        found.get("arrays"),
    )
