"""The report as one page: no file beside it, no network, both languages in it.

It opens from a disk, in a mail and in a course's learning platform, so it works without scripts too:
the script only filters, and remembers the language. A policy in the page allows that one script and no
other, whatever a results file holds.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from conformance import __version__
from conformance.language.program import Text
from conformance.reports.model import Graded, Report, Verdict, position
from conformance.reports.reading import report_of
from conformance.reports.words import word
from conformance.results.records import VERDICTS
from conformance.results.store import Results

MAX_BYTES = 1_000_000
"""A page stays under this: what a mail and a learning platform take without a murmur."""

_TEMPLATES = Path(__file__).parent / "templates"
_INDENT = re.compile(r"^ +", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Limits:
    """How much of everything is shown."""

    problems: int
    opened: int
    sentence: int
    code: int
    rows: int
    claims: int


TIERS = (
    Limits(problems=200, opened=5, sentence=700, code=6_000, rows=400, claims=1_000),
    Limits(problems=60, opened=3, sentence=240, code=1_500, rows=40, claims=400),
    Limits(problems=20, opened=1, sentence=120, code=600, rows=8, claims=200),
)
"""Tried in turn until the page is small enough; the first does for all that is not made to be large."""


def render(results: Results, lang: str = "en") -> str:
    """The page, opened in a language; the other one is a click away."""
    report = report_of(results)
    page = ""
    for limits in TIERS:
        page = _page(report, lang, limits)
        if len(page.encode()) <= MAX_BYTES:
            break
    return page


def _page(report: Report, lang: str, limits: Limits) -> str:
    style, script = (_part(name) for name in ("report.css", "report.js"))
    present = report.counts
    return _template().render(
        report=report, lang=lang, target=report.facts.get("target", ""), limits=limits, problems=report.problems[: limits.problems],
        claims=_ordered(report)[: limits.claims], numbered={g.claim.id: i for i, g in enumerate(report.problems, 1)},
        verdicts=[v for v in VERDICTS if present[v]], rungs=[r.name for r in report.ladder if not r.empty],
        style=Markup(style), script=Markup(script), policy=_policy(style, script), version=__version__,
        cut=functools.partial(_cut, limits), w=word, t=functools.partial(_both, limits.sentence),
        rows=functools.partial(_rows, limits.rows), VERDICTS=VERDICTS,
    )  # fmt: skip


@functools.cache
def _part(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@functools.cache
def _template() -> jinja2.Template:
    # The template is indented for its reader; without, a page is a tenth smaller.
    source = _INDENT.sub("", _part("report.html"))
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(source)


def _policy(style: str, script: str) -> str:
    def source(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return f"default-src 'none'; style-src {source(style)}; script-src {source(script)}; base-uri 'none'; form-action 'none'"


def _cut(limits: Limits, text: str) -> str:
    """A snippet, shortened by whole lines."""
    if len(text) <= limits.code:
        return text
    return text[: limits.code].rpartition("\n")[0] + "\n…"


def _both(limit: int, text: Text | str) -> Markup:
    """A text in both languages, of which the page shows one; what stands in backticks is code."""
    if isinstance(text, str):
        return _coded(text, limit)
    if text.en == text.zh:
        return _coded(text.en, limit)
    return Markup('<i lang="en">{}</i><i lang="zh">{}</i>').format(
        _coded(text.en, limit), _coded(text.zh, limit)
    )


def _coded(text: str, limit: int) -> Markup:
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    parts = _CODE.split(text)  # every second one stood in backticks
    return Markup("").join(Markup("<code>{}</code>").format(p) if i % 2 else p for i, p in enumerate(parts))


def _ordered(report: Report) -> list[Graded]:
    """All claims: what was graded before what was not, each by rung and then as it came."""
    return sorted(report.graded, key=lambda g: (g.verdict == "unsupported", position(g.claim.rung)))


def _rows(most: int, item: Graded) -> dict[str, Any]:
    """The verdicts of a claim that are listed: those that are not passed first, when there are too many."""
    verdicts: tuple[Verdict, ...] = item.verdicts
    if len(verdicts) > most:
        verdicts = tuple(sorted(verdicts, key=lambda v: v.verdict == "pass"))[:most]
    return {"shown": verdicts, "left": len(item.verdicts) - len(verdicts)}
