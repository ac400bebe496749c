"""Many runs on one page: who conforms, what they share, and a cell for each claim of each.

The cells say their verdict by a sign as well as by a colour, and are as short as HTML allows: five
hundred runs of a hundred and fifty claims are seventy-five thousand of them.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from conformance import __version__
from conformance.pack.model import RUNGS
from conformance.reports import page
from conformance.reports.entries import OUTCOMES, Entry, Heading, entry_of, groups
from conformance.reports.model import position
from conformance.reports.words import word
from conformance.results.records import BROKEN, VERDICTS
from conformance.results.store import Results

SIGNS = {"pass": "✓", "fail": "✗", "error": "E", "timeout": "T", "waived": "W", "unsupported": "·"}
NAMES = 200
"""Runs that a group names; the rest is counted."""

_CLASSES = {verdict: verdict[0] for verdict in VERDICTS}


def render(results: Results | Sequence[Results], lang: str = "en") -> str:
    """The page of one run or of several, called after their targets."""
    runs = [results] if isinstance(results, Results) else results
    found = [entry_of(run) for run in runs]
    return render_entries([entry for entry, _ in found], joined(headings for _, headings in found), lang)


def joined(all_headings: object) -> dict[str, Heading]:
    """The claims of several runs: by rung, and within it as they came."""
    known: dict[str, Heading] = {}
    for headings in all_headings:  # type: ignore[attr-defined]
        for name, heading in headings.items():
            known.setdefault(name, heading)
    return dict(sorted(known.items(), key=lambda item: position(item[1].rung)))


def render_entries(entries: Sequence[Entry], headings: Mapping[str, Heading], lang: str = "en") -> str:
    """The page."""
    style = page.part("page.css") + page.part("matrix.css")
    script = page.part("page.js") + page.part("matrix.js")
    ranked = sorted(entries, key=lambda entry: entry.rank)
    outcomes = Counter(entry.outcome for entry in entries)
    packs = sorted({entry.pack for entry in entries if entry.pack})
    present = {rung for entry in entries for rung in entry.counts}
    rungs = sorted(present, key=position)
    found = groups(ranked, headings)
    return page.template("matrix.html").render(
        lang=lang, heading="grades", target="", style=Markup(style), script=Markup(script),
        policy=page.policy(style, script), version=__version__, w=word, t=functools.partial(page.both, 400),
        entries=ranked, outcomes={name: outcomes[name] for name in OUTCOMES if outcomes[name]}, packs=packs,
        groups=found, shared=[g for g in found if len(g.entries) > 1], single=[g for g in found if len(g.entries) == 1], rungs=rungs, headings=list(headings.values()),
        spans=Counter(heading.rung for heading in headings.values()), cells=functools.partial(_cells, list(headings)),
        rung=_rung, hardest=_hardest(entries, headings), NAMES=NAMES, SIGNS=SIGNS, VERDICTS=VERDICTS, RUNGS=RUNGS,
        classes={"conforms": "pass", "does not conform": "fail", "interrupted": "timeout", "nothing graded": "unsupported"},
    )  # fmt: skip


def _cells(claims: Sequence[str], entry: Entry) -> Markup:
    """The cells of a row: a sign and a class of one letter; nothing where the run has no such claim."""
    cells = entry.cells
    return Markup("").join(
        _CELL[cells[claim]] if claim in cells and cells[claim] in _CELL else _NO_CELL for claim in claims
    )


_NO_CELL = Markup("<td>")
_CELL = {
    verdict: Markup("<td class={}>{}").format(_CLASSES[verdict], sign) for verdict, sign in SIGNS.items()
}


def _rung(entry: Entry, rung: str) -> dict[str, object]:
    """Passed of all that got a verdict on a rung, and the class of the worst."""
    counts = entry.counts.get(rung, {})
    passed, broken = counts.get("pass", 0), sum(counts.get(v, 0) for v in BROKEN)
    waived = counts.get("waived", 0)
    text = f"{passed}/{passed + broken + waived}" if passed or broken or waived else ""
    kind = next(
        (v for v in BROKEN if counts.get(v)), "waived" if waived else "pass" if passed else "unsupported"
    )
    return {"text": text, "kind": kind}


def _hardest(entries: Sequence[Entry], headings: Mapping[str, Heading]) -> list[tuple[Heading, int, int]]:
    """The claims that most runs break: claim, how many break it, of how many that were graded on it."""
    broken: Counter[str] = Counter()
    graded: Counter[str] = Counter()
    for entry in entries:
        for claim, verdict in entry.cells.items():
            if verdict != "unsupported":
                graded[claim] += 1
                broken[claim] += verdict in BROKEN
    return [(headings[claim], n, graded[claim]) for claim, n in broken.most_common(10) if n]
