"""A run as Gradescope's `results.json`: points by a rubric, a test for each claim, shown when the rubric says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from conformance.language.program import Text
from conformance.reports import plain
from conformance.reports.account import account, shortcomings
from conformance.reports.json_report import safe_json
from conformance.reports.model import Graded, Report
from conformance.reports.reading import report_of
from conformance.reports.rubric import DEFAULT, Criterion, Rubric
from conformance.reports.words import pick, say
from conformance.results.store import Results
from conformance.told import told

OUTPUT = 4_000
"""Characters of the text of one test."""


def render(results: Results, lang: str = "en", rubric: Rubric = DEFAULT) -> str:
    """The document; its texts are plain, never markup."""
    report = report_of(results)
    tests: list[dict[str, Any]] = []
    score, taken = 0.0, set[str]()
    notes = [message for _, message in shortcomings(report, lang)]
    notes += [pick(note, lang) for note in report.notes]
    for number, criterion in enumerate(rubric.criteria, 1):
        own = [
            g
            for g in report.graded
            if g.claim.id not in taken and criterion.select.includes(g.claim, None, "")
        ]
        taken |= {graded.claim.id for graded in own}
        counted = [g for g in own if g.verdict != "unsupported"] if criterion.left_out else own
        if not counted:
            notes.append(say("no claim fits", lang, name=criterion.name, points=f"{criterion.points:g}"))
        earned, lines = _criterion(report, rubric, criterion, counted, number, lang)
        score += earned
        tests += lines
    total = sum(criterion.points for criterion in rubric.criteria)
    output = "\n".join([pick(report.sentence, lang), *_headline(report, lang), *dict.fromkeys(notes)])
    return _document(score, total, output, tests)


def nothing(why: str, lang: str = "en") -> str:
    """The document of a run that left no results: no points, and the reason. Gradescope wants one in any case."""
    return _document(0.0, 0.0, plain.block(say("not gradable", lang, why=told(why))), [])


def _document(score: float, total: float, output: str, tests: Sequence[dict[str, Any]]) -> str:
    document = {
        "score": round(score, 4),
        "output": output[: 4 * OUTPUT],
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "extra_data": {"max_score": round(total, 4)},
        "tests": list(tests),
    }
    return safe_json(json.dumps(document, ensure_ascii=False, indent=1))


def _criterion(
    report: Report, rubric: Rubric, criterion: Criterion, counted: Sequence[Graded], number: int, lang: str
) -> tuple[float, list[dict[str, Any]]]:
    """Points earned, and a test for each claim; with `all`, one before them that has all the points."""
    fractions = [criterion.fraction(graded) for graded in counted]
    name = pick(criterion.name, lang)
    share = criterion.points / len(counted) if counted else 0.0
    tests = []
    if criterion.credit == "all":
        earned = criterion.points if counted and all(fraction == 1 for fraction in fractions) else 0.0
        held = sum(fraction == 1 for fraction in fractions)
        tests.append({
            "name": name, "number": str(number), "score": round(earned, 4), "max_score": criterion.points,
            "status": "passed" if earned or (counted and held == len(counted)) else "failed",
            "output": say("n of m claims", lang, n=held, all=len(counted)), "visibility": criterion.visibility,
        })  # fmt: skip
        share = 0.0
    else:
        earned = share * sum(fractions)
    for i, (graded, fraction) in enumerate(zip(counted, fractions, strict=True), 1):
        claim = graded.claim
        test: dict[str, Any] = {
            "name": f"{claim.id}  {pick(claim.title, lang)}".strip(),
            "number": f"{number}.{i}",
            "status": "passed" if fraction == 1 else "failed",
            "output": _output(report, graded, lang),
            "tags": [tag for tag in (claim.rung, claim.level, claim.question, *claim.statements) if tag],
            "visibility": rubric.sight(criterion, claim),
        }
        if share:
            test |= {"score": round(share * fraction, 4), "max_score": round(share, 4)}
        tests.append(test)
    return earned, tests


def _output(report: Report, graded: Graded, lang: str) -> str:
    if not graded.broken:
        return pick(graded.worst.summary if graded.verdict != "pass" else Text("", ""), lang)
    follows = report.follows.get(graded.claim.id)
    text = account(graded, graded.worst, lang)
    if follows:
        text += "\n" + say("consequence", lang, cause=follows)
    return text if len(text) <= OUTPUT else text[: OUTPUT - 1] + "…"


def _headline(report: Report, lang: str) -> list[str]:
    lines = []
    if report.causes:
        lines.append(
            f"{say('cause', lang)}{say(':', lang)}{pick(report.causes[0].says, lang) or report.causes[0].name}"
        )
    elif report.first:
        lines.append(f"{say('seen', lang)}{say(':', lang)}{pick(report.first.worst.summary, lang)}")
        if pick(report.alike, lang):
            lines.append(pick(report.alike, lang))
    if report.where and report.where.at:
        lines.append(f"{say('place', lang)}{say(':', lang)}{report.where.at}  {report.where.text}")
    return lines
