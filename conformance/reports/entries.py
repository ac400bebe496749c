"""A run as one row of a table of many: what it amounts to, and a verdict for each claim.

Of each results file only this much is kept, so that a table of five hundred runs fits in memory. As in
every report, nothing that a file holds is taken for granted.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from conformance.language.program import Text
from conformance.reports import plain
from conformance.reports.lines import cause_of, where_of
from conformance.reports.model import GRAVITY, NOTHING, Cause, Where, position
from conformance.reports.words import word
from conformance.results.records import BROKEN
from conformance.results.store import Results

OUTCOMES = ("conforms", "does not conform", "interrupted", "nothing graded")
"""What came of a run, the best first."""


@dataclass(frozen=True)
class Heading:
    """A claim as the head of a column."""

    id: str
    rung: str
    level: str
    title: Text


@dataclass(frozen=True)
class Entry:
    """One run.

    Attributes:
        name: how the table calls it.
        link: its report, seen from the table; '' where there is none.
        outcome: one of `OUTCOMES`.
        reason: why nothing was graded, or why it ended early.
        pack: pack and version.
        counts: number of verdicts by rung and verdict.
        cells: for each claim the verdict that stands for it.
        must: claims that are MUST and broken.
        causes: mistakes that explain what is broken, each with its text.
        first: the first broken claim.
        where: the place to look at first.
        statements: how many were graded.
        testable: of how many.
        more: further columns of a roster.
        error: what the first broken claim shows where nothing came of it: an exception, a crash, a hang.
    """

    name: str
    link: str
    outcome: str
    reason: Text
    pack: str
    counts: Mapping[str, Mapping[str, int]]
    cells: Mapping[str, str]
    must: int
    causes: tuple[Cause, ...]
    first: str
    where: Where | None
    statements: int
    testable: int
    seconds: str
    more: Mapping[str, str] = field(default_factory=dict)
    error: Text = NOTHING

    @property
    def totals(self) -> Mapping[str, int]:
        """Number of verdicts by verdict."""
        total: Counter[str] = Counter()
        for counts in self.counts.values():
            total.update(counts)
        return total

    @property
    def broken(self) -> int:
        """Number of claims that are broken."""
        return sum(verdict in BROKEN for verdict in self.cells.values())

    @property
    def rank(self) -> tuple[int, int, int, int, str]:
        """Fewest problems first; of equals, who offers more. What got no verdict comes last."""
        graded = self.outcome in OUTCOMES[:2]
        return (
            0 if graded else OUTCOMES.index(self.outcome), self.must + (self.outcome == OUTCOMES[1]), self.broken,
            -self.statements, self.name.casefold(),
        )  # fmt: skip


def entry_of(results: Results, name: str = "", link: str = "") -> tuple[Entry, Mapping[str, Heading]]:
    """A results file as a row, and the claims that it speaks of. Never raises for what a file holds."""
    gravest: dict[str, int] = {}
    levels: dict[str, str] = {}
    rungs: dict[str, str] = {}
    counts: dict[str, Counter[str]] = {}
    for line in results.verdicts:
        claim, rung, verdict = (_name(line.get(key)) for key in ("claim", "rung", "verdict"))
        counts.setdefault(rung, Counter())[verdict] += 1
        weight = GRAVITY.index(verdict) if verdict in GRAVITY else len(GRAVITY) - 1
        gravest[claim] = min(gravest.get(claim, len(GRAVITY)), weight)
        if claim not in rungs:
            levels[claim], rungs[claim] = _name(line.get("level")), rung
    cells = {claim: GRAVITY[weight] for claim, weight in gravest.items()}
    headings = {
        claim: Heading(claim, rungs[claim], levels[claim], _title(results.claims.get(claim)))
        for claim in cells
    }
    end = results.end or {}
    graded = any(v != "unsupported" for v in cells.values())
    outcome = (
        OUTCOMES[2]
        if results.end is None
        else OUTCOMES[3]
        if not graded
        else OUTCOMES[end.get("conforms") is not True]
    )
    broken = [claim for claim, verdict in cells.items() if verdict in BROKEN]
    first = end.get("first_broken")
    said = _name(first.get("claim")) if isinstance(first, Mapping) else ""
    causes = _causes(results, broken)
    first_claim = said or next(iter(sorted(broken, key=lambda claim: position(rungs[claim]))), "")
    error, at = (NOTHING, None) if causes else _error(results, first_claim)
    statements, testable = end.get("graded_statements"), end.get("testable_statements")
    entry = Entry(
        name=plain.line(name or results.run.get("target"), plain.NAME) or "?",
        link=link,
        outcome=outcome,
        reason=_reason(results, outcome),
        pack=" ".join(_name(results.run.get(key)) for key in ("pack", "pack_version")).strip(),
        counts=counts,
        cells=cells,
        must=sum(levels[claim] == "MUST" for claim in broken),
        causes=causes,
        first=first_claim,
        where=next((cause.where for cause in causes if cause.where), at),
        statements=len(statements) if isinstance(statements, list) else 0,
        testable=testable if isinstance(testable, int) else 0,
        seconds=plain.number(end.get("seconds")) if end else "",
        error=error,
    )
    return entry, headings


def failed_entry(name: str, reason: Text, outcome: str = OUTCOMES[3], link: str = "") -> Entry:
    """A row of what left no results file."""
    says = plain.both({"en": reason.en, "zh": reason.zh})
    return Entry(
        plain.line(name, plain.NAME) or "?", link, outcome, says, "", {}, {}, 0, (), "", None, 0, 0, ""
    )


@dataclass(frozen=True)
class Group:
    """Runs that share a diagnosis, or else an error, or what they broke first, or why nothing was graded.

    `key` is the mistake's id, or the claim's; '' for a reason. Of an error it is the first broken claim.
    """

    key: str
    says: Text
    entries: tuple[Entry, ...]
    mistake: bool
    error: bool = False


def groups(entries: Sequence[Entry], headings: Mapping[str, Heading]) -> list[Group]:
    """Runs by diagnosis, the largest group first; then those that no mistake explains, by error; then those not graded."""
    # A run that cannot tell two mistakes apart joins the one that more runs have.
    common = Counter(m for entry in entries for cause in entry.causes for m in cause.mistakes)
    shared: dict[str, list[Entry]] = {}
    says: dict[str, Text] = {}
    errors: dict[Text, list[Entry]] = {}
    first: dict[str, list[Entry]] = {}
    reasons: dict[Text, list[Entry]] = {}
    for entry in entries:
        for cause in entry.causes:
            mistake = max(cause.mistakes, key=lambda m: common[m])
            says.setdefault(mistake, NOTHING)
            if mistake == cause.mistakes[0]:
                says[mistake] = cause.says
            if entry not in shared.setdefault(mistake, []):
                shared[mistake].append(entry)
        if entry.error.en:
            errors.setdefault(entry.error, []).append(entry)
        elif not entry.causes and entry.broken:
            first.setdefault(entry.first, []).append(entry)
        elif not entry.broken and entry.outcome in OUTCOMES[2:]:
            reasons.setdefault(entry.reason, []).append(entry)

    def ordered(found: Mapping[Any, list[Entry]]) -> list[tuple[Any, list[Entry]]]:
        return sorted(found.items(), key=lambda item: -len(item[1]))

    return [
        *(Group(mistake, says[mistake], tuple(own), True) for mistake, own in ordered(shared)),
        *(Group(own[0].first, says, tuple(own), mistake=False, error=True) for says, own in ordered(errors)),
        *(
            Group(claim, headings[claim].title if claim in headings else NOTHING, tuple(own), False)
            for claim, own in ordered(first)
        ),
        *(Group("", reason, tuple(own), False) for reason, own in ordered(reasons)),
    ]


@functools.lru_cache(maxsize=65_536)
def _short(value: str) -> str:
    return plain.line(value, plain.NAME)


def _name(value: object) -> str:
    return _short(value) if isinstance(value, str) else plain.line(value, plain.NAME)


def _title(line: Mapping[str, Any] | None) -> Text:
    title = line.get("title") if line else None
    if not isinstance(title, Mapping):
        return plain.both(title)
    en, zh = title.get("en"), title.get("zh")
    return _short_title(en, zh) if isinstance(en, str) and isinstance(zh, str) else plain.both(title)


@functools.lru_cache(maxsize=4096)
def _short_title(en: str, zh: str) -> Text:
    """Of a claim that many runs have, made harmless once."""
    return plain.both({"en": en, "zh": zh})


def _causes(results: Results, broken: Sequence[str]) -> tuple[Cause, ...]:
    """What the end line names; without one, what the verdicts name."""
    said = (results.end or {}).get("causes")
    if isinstance(said, list):
        told = [cause_of(line) for line in said[:20] if isinstance(line, Mapping)]
        return tuple(replace(cause, claims=()) for cause in told if cause.mistakes and cause.claims)
    if not broken:
        return ()
    found: dict[str, Cause] = {}
    for line in results.verdicts:
        named = line.get("diagnosis")
        first = named[0] if isinstance(named, list) and named and isinstance(named[0], Mapping) else None
        if first and line.get("verdict") in BROKEN:
            mistake = _name(first.get("mistake"))
            found.setdefault(
                mistake, Cause((mistake,), plain.both(first.get("says")), where_of(line.get("where")), ())
            )
    return tuple(found.values())


_PLACE = re.compile(r" \([^()]*, line \d+\)$|（[^（）]*，第 \d+ 行）$")


def _error(results: Results, claim: str) -> tuple[Text, Where | None]:
    """What stands for a claim that gave no tensors, without the place, which differs from file to file; and the place."""
    own = [
        line
        for line in results.verdicts
        if line.get("verdict") in BROKEN and _name(line.get("claim")) == claim
    ]
    if not own or any(line.get("verdict") == "fail" for line in own):
        return NOTHING, None
    says = plain.both(own[0].get("summary"))
    return Text(_PLACE.sub("", says.en), _PLACE.sub("", says.zh)), where_of(own[0].get("where"))


def _reason(results: Results, outcome: str) -> Text:
    if outcome == OUTCOMES[2]:
        return word("interrupted note")
    if outcome != OUTCOMES[3]:
        return NOTHING
    notes = results.run.get("notes")
    if isinstance(notes, list) and notes:
        return plain.both(notes[0])
    reasons = Counter(plain.both(line.get("summary")) for line in results.of_verdict("unsupported"))
    if len(reasons) < 2:
        return next(iter(reasons), word("nothing selected"))
    # One of many reasons would read as if that one thing were missing.
    first = [says for says, _ in reasons.most_common(3)]
    more = f", +{len(reasons) - len(first)}" if len(reasons) > len(first) else ""
    return word(
        "offers nothing",
        reasons=Text("; ".join(r.en for r in first) + more, "；".join(r.zh for r in first) + more),
    )
