"""The report as one page: no file beside it, no network, both languages in it.

It opens from a disk, in a mail and in a course's learning platform, so it works without scripts too:
the script only filters, and remembers the language. A policy in the page allows that one script and no
other, whatever a results file holds.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from conformance import __version__
from conformance.pack.model import LEVELS
from conformance.reports import charts, dataflow, layers, page
from conformance.reports.lines import OVER
from conformance.reports.model import Graded, Report, Verdict, position
from conformance.reports.pictures import picture
from conformance.reports.reading import report_of
from conformance.reports.words import between, fact, word
from conformance.results.records import VERDICTS, Profile
from conformance.results.store import Results

MAX_BYTES = 1_000_000
"""A page stays under this: what a mail and a learning platform take without a murmur."""


SIGNS = {"good": "✓", "bad": "✗", "silent": "–", "unseen": ""}
"""Of the states of a tensor, for whoever does not see the colours."""


@dataclass(frozen=True)
class Charted:
    """A chart, and the verdict that it belongs to."""

    claim: str
    occasion: str
    chart: charts.Chart


@dataclass(frozen=True)
class Limits:
    """How much of everything is shown."""

    problems: int
    opened: int
    sentence: int
    code: int
    rows: int
    claims: int
    pictures: int
    """Characters of all pictures together."""
    charts: int


TIERS = (
    Limits(
        problems=200, opened=5, sentence=700, code=6_000, rows=400, claims=1_000, pictures=150_000, charts=12
    ),
    Limits(problems=60, opened=3, sentence=240, code=1_500, rows=40, claims=400, pictures=60_000, charts=4),
    Limits(problems=20, opened=1, sentence=120, code=600, rows=8, claims=200, pictures=0, charts=0),
)
"""Tried in turn until the page is small enough; the first does for all that is not made to be large."""


def render(results: Results, lang: str = "en") -> str:
    """The page, opened in a language; the other one is a click away."""
    report = report_of(results)
    flow = dataflow.drawing(report, results.run.get("flow"))
    text = ""
    for limits in TIERS:
        text = _page(report, flow, lang, limits)
        if len(text.encode()) <= MAX_BYTES:
            break
    return text


def _page(report: Report, flow: dataflow.Drawing | None, lang: str, limits: Limits) -> str:
    style, script = (
        page.part("page.css") + page.part("report.css"),
        page.part("page.js") + page.part("report.js"),
    )
    present = report.counts
    problems, claims = report.problems[: limits.problems], _ordered(report)[: limits.claims]
    anchors = {graded.claim.id: f"c{i}" for i, graded in enumerate(claims, 1)}
    charted = _charted(report) if limits.charts else []
    anchors |= {graded.claim.id: f"p{i}" for i, graded in enumerate(problems, 1)}
    return page.template("report.html").render(
        report=report, heading="page title", lang=lang, target=report.facts.get("target", ""), limits=limits, problems=problems,
        claims=claims, numbered={g.claim.id: i for i, g in enumerate(report.problems, 1)},
        verdicts=[v for v in VERDICTS if present[v]], rungs=[r.name for r in report.ladder if not r.empty],
        style=Markup(style), script=Markup(script), policy=page.policy(style, script), version=__version__,
        flow=flow, legend=dataflow.legend, signs=SIGNS, box_width=dataflow.WIDTH, box_height=dataflow.HEIGHT, anchors=anchors,
        stacks=layers.stacks(report), charted=charted, charts=_charts(problems, charted, limits.charts), size=charts,
        pictures=_pictures(problems, limits.pictures), between=between, fact=fact,
        questions=sorted({g.claim.question for g in claims if g.claim.question}),
        levels=[level for level in LEVELS if any(g.claim.level == level for g in claims)],
        cut=functools.partial(_cut, limits), w=word, t=functools.partial(page.both, limits.sentence),
        rows=functools.partial(_rows, limits), VERDICTS=VERDICTS,
    )  # fmt: skip


def _charted(report: Report) -> list[Charted]:
    """What stands beside the layers: a claim's error along layers and one along positions."""
    found: dict[str, tuple[Graded, Verdict, Profile]] = {}
    for graded in (*report.problems, *report.graded):
        for verdict in (graded.worst, *graded.verdicts):
            for profile in verdict.profiles:
                known = found.get(profile.over)
                # Against the program an error is seen to be handed on; a layer's own stage tells less.
                if known is None or (known[2].local and not profile.local):
                    found[profile.over] = (graded, verdict, profile)
    kept = [found[over] for over in OVER if over in found]
    return [Charted(graded.claim.id, verdict.occasion, charts.chart(p)) for graded, verdict, p in kept]


def _charts(problems: Sequence[Graded], shown: Sequence[Charted], most: int) -> dict[str, Charted]:
    """For each broken claim how the error of one of its failures runs, unless that is shown already."""
    above = {charted.claim for charted in shown}
    found: dict[str, Charted] = {}
    for graded in problems:
        verdict = next((v for v in (graded.worst, *graded.broken) if v.profiles), None)
        if verdict is not None and graded.claim.id not in above and len(found) < most:
            found[graded.claim.id] = Charted(
                graded.claim.id, verdict.occasion, charts.chart(verdict.profiles[0])
            )
    return found


def _pictures(problems: Sequence[Graded], room: int) -> dict[str, str]:
    """For each broken claim the arrays of one of its failures, the worst if it has any, while there is room."""
    found = {}
    for graded in problems:
        drawn = next((p for v in (graded.worst, *graded.broken) if (p := picture(v.evidence))), "")
        if drawn and len(drawn) <= room:
            room -= len(drawn)
            found[graded.claim.id] = drawn
    return found


def _cut(limits: Limits, text: str) -> str:
    """A snippet, shortened by whole lines."""
    if len(text) <= limits.code:
        return text
    return text[: limits.code].rpartition("\n")[0] + "\n…"


def _ordered(report: Report) -> list[Graded]:
    """All claims: what was graded before what was not, each by rung and then as it came."""
    return sorted(report.graded, key=lambda g: (g.verdict == "unsupported", position(g.claim.rung)))


def _rows(limits: Limits, item: Graded) -> dict[str, Any]:
    """The verdicts of a claim that are listed: those that are not passed first, when there are too many."""
    verdicts: tuple[Verdict, ...] = item.verdicts
    if len(verdicts) > limits.rows:
        verdicts = tuple(sorted(verdicts, key=lambda v: v.verdict == "pass"))[: limits.rows]
    shown = "".join(_row(limits.sentence, v) for v in verdicts)
    return {"shown": Markup(shown), "left": len(item.verdicts) - len(verdicts)}


def _row(sentence: int, v: Verdict) -> str:
    """One verdict of a claim, escaped. There are hundreds on a page, and a template takes three times as long."""
    case, variant, dtype = page.escaped(v.case), page.escaped(v.variant), page.escaped(v.dtype)
    state = v.verdict if v.verdict in VERDICTS else "unsupported"
    said = page.both(sentence, v.summary) if v.verdict != "pass" or v.margin is None else ""
    verdict, off = page.both(sentence, word(v.verdict)), page.escaped(v.off)
    return (
        f'<tr><td>{case}<td>{variant}<td>{dtype}<td class="{state}">{verdict}<td class="n">{off}<td>{said}\n'
    )
