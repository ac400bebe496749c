"""Two runs compared: what broke, what was mended, and what is broken otherwise than before. In Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from conformance.reports.markdown import code, plain_text, text
from conformance.reports.model import Report, Verdict
from conformance.reports.reading import report_of
from conformance.reports.words import say
from conformance.results.records import BROKEN
from conformance.results.store import Results

MOST = 200
"""Verdicts that are listed under a heading."""

Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Change:
    """A verdict before and after; None where the run has none."""

    before: Verdict | None
    after: Verdict | None


@dataclass(frozen=True)
class Difference:
    """All that two runs of the same claims do not agree on."""

    broke: tuple[Change, ...]
    mended: tuple[Change, ...]
    still: tuple[Change, ...]
    other: tuple[Change, ...]
    """Broken in neither, and yet not the same: not graded any more, waived, new."""
    same: int


def difference(before: Report, after: Report) -> Difference:
    """What became of each verdict, by claim, case, variant and dtype."""
    old, new = _verdicts(before), _verdicts(after)
    broke: list[Change] = []
    mended: list[Change] = []
    still: list[Change] = []
    other: list[Change] = []
    same = 0
    for key in dict.fromkeys((*old, *new)):
        change = Change(old.get(key), new.get(key))
        was = change.before is not None and change.before.verdict in BROKEN
        is_now = change.after is not None and change.after.verdict in BROKEN
        if was and is_now:
            still.append(change)
        elif is_now:
            broke.append(change)
        elif was:
            # One that is not graded any more was not mended.
            mends = change.after is not None and change.after.verdict == "pass"
            (mended if mends else other).append(change)
        elif _word(change.before) != _word(change.after):
            other.append(change)
        else:
            same += 1
    return Difference(tuple(broke), tuple(mended), tuple(still), tuple(other), same)


def render(before: Results, after: Results, lang: str = "en") -> str:
    """The difference as Markdown: a sentence, and a list under each heading that has any."""
    reports = report_of(before), report_of(after)
    return "\n".join(_lines(*reports, difference(*reports), lang)) + "\n"


def _lines(old: Report, new: Report, found: Difference, lang: str) -> Iterator[str]:
    counts = {
        "broke": len(found.broke),
        "mended": len(found.mended),
        "still": len(found.still),
        "same": found.same,
    }
    yield f"### {say('difference', lang, **counts)}"
    yield ""
    for label, report in (("before", old), ("after", new)):
        target = code(report.facts.get("target", ""))
        yield f"- {say(label, lang)}{say(':', lang)}{target} {text(report.sentence, lang)}"
    for name in ("pack", "seed", "variants", "dtypes"):
        a, b = (report.facts.get(name, "") for report in (old, new))
        if a != b:
            yield f"- {say('differs', lang, name=say(name, lang), a=plain_text(a), b=plain_text(b))}"
    for label, changes in (
        ("broke", found.broke),
        ("mended", found.mended),
        ("still broken", found.still),
        ("otherwise", found.other),
    ):
        if changes:
            yield from _section(say(label, lang), changes, lang)


def _section(title: str, changes: Sequence[Change], lang: str) -> Iterator[str]:
    yield ""
    yield f"#### {title} ({len(changes)})"
    yield ""
    for change in changes[:MOST]:
        verdict = change.after or change.before
        assert verdict is not None
        words = [plain_text(say(_word(v) or "absent", lang)) for v in (change.before, change.after)]
        why = verdict.diagnosis[0].id if verdict.diagnosis else ""
        yield (
            f"- {code(verdict.claim)} {plain_text(verdict.occasion)}{say(':', lang)}{words[0]} → {words[1]}"
            + (f" ({code(why)})" if why else "")
        )
    if len(changes) > MOST:
        yield f"- {say('more lines', lang, n=len(changes) - MOST)}"


def _verdicts(report: Report) -> dict[Key, Verdict]:
    return {(v.claim, v.case, v.variant, v.dtype): v for graded in report.graded for v in graded.verdicts}


def _word(verdict: Verdict | None) -> str:
    return verdict.verdict if verdict else ""
