"""A run as a table, one row for each verdict, for a spreadsheet or a data frame."""

from __future__ import annotations

import csv
import io

from conformance.reports.model import Graded, Verdict
from conformance.reports.reading import report_of
from conformance.reports.words import pick
from conformance.results.store import Results

COLUMNS = (
    "claim", "question", "rung", "level", "statements", "title", "case", "variant", "dtype", "verdict", "margin",
    "tensor", "index", "got", "expected", "tolerance", "mistakes", "file", "line", "summary",
)  # fmt: skip
"""The header: names of the contract."""

NUMBERS = ("margin", "got", "expected", "tolerance", "line")
"""Columns that a spreadsheet is to read as numbers."""


def render(results: Results, lang: str = "en") -> str:
    """The table with a header; `title` and `summary` in the language."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for graded in report_of(results).graded:
        for verdict in graded.verdicts:
            cells = _row(graded, verdict, lang)
            writer.writerow([cell(name, cells.get(name, "")) for name in COLUMNS])
    return text.getvalue()


def _row(graded: Graded, verdict: Verdict, lang: str) -> dict[str, str]:
    claim, evidence, where = graded.claim, verdict.evidence, verdict.where
    row = {
        "claim": verdict.claim, "question": claim.question, "rung": verdict.rung, "level": verdict.level,
        "statements": " ".join(claim.statements), "title": pick(claim.title, lang), "case": verdict.case,
        "variant": verdict.variant, "dtype": verdict.dtype, "verdict": verdict.verdict,
        "margin": "" if verdict.margin is None else repr(verdict.margin),
        "mistakes": " ".join(m.id for m in verdict.diagnosis), "summary": pick(verdict.summary, lang),
    }  # fmt: skip
    if evidence:
        row |= {name: getattr(evidence, name) for name in ("tensor", "index", "got", "expected", "tolerance")}
    if where:
        row |= {"file": where.file or where.node, "line": where.line}
    return row


def cell(column: str, text: str) -> str:
    """A cell that no spreadsheet takes for a formula: it begins with an apostrophe, which is not shown."""
    if column in NUMBERS and _is_number(text):
        return text
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r", "'")) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
