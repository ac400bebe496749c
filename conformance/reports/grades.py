"""The grades of many as a table: a row for each submission, in the order in which they were found."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

from conformance.pack.model import RUNGS
from conformance.reports import plain
from conformance.reports.csv_report import cell
from conformance.reports.entries import Entry
from conformance.reports.words import pick
from conformance.results.records import VERDICTS

COLUMNS = (
    "name", "outcome", "conforms", *VERDICTS, "broken_claims", "graded_statements", "testable_statements",
    *(f"{rung}_passed" for rung in RUNGS), *(f"{rung}_broken" for rung in RUNGS),
    "first_broken", "mistakes", "file", "line", "reason", "seconds", "report",
)  # fmt: skip
"""The header; further columns of a roster follow."""


def render(entries: Sequence[Entry], lang: str = "en") -> str:
    """The table with a header, as CSV that no spreadsheet takes for formulas."""
    more = list(dict.fromkeys(name for entry in entries for name in entry.more))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    taken = set(COLUMNS)
    called = [f"roster_{name}" if name in taken else name for name in more]
    writer.writerow([*COLUMNS, *(cell("", plain.line(name, plain.NAME)) for name in called)])
    for entry in entries:
        row = _row(entry, lang)
        own = [plain.line(entry.more.get(name, "")) for name in more]
        writer.writerow([*(cell(name, row[name]) for name in COLUMNS), *(cell("", value) for value in own)])
    return text.getvalue()


def as_json(entries: Sequence[Entry]) -> str:
    """The same as a list of objects, with names of the claims' verdicts in `claims`."""
    rows = [
        {**_row(entry, "en"), "claims": dict(entry.cells), "roster": dict(entry.more)} for entry in entries
    ]
    return json.dumps(rows, indent=1)


def _row(entry: Entry, lang: str) -> dict[str, str]:
    totals, where = entry.totals, entry.where
    row = {
        "name": entry.name, "outcome": entry.outcome, "conforms": "yes" if entry.outcome == "conforms" else "no",
        **{verdict: str(totals.get(verdict, 0)) for verdict in VERDICTS}, "broken_claims": str(entry.broken),
        "graded_statements": str(entry.statements), "testable_statements": str(entry.testable),
        "first_broken": entry.first, "mistakes": " ".join(cause.mistakes[0] for cause in entry.causes),
        "file": where.file or where.node if where else "", "line": where.line if where else "",
        "reason": pick(entry.reason, lang) or pick(entry.error, lang), "seconds": entry.seconds, "report": entry.link,
    }  # fmt: skip
    for rung in RUNGS:
        counts = entry.counts.get(rung, {})
        row[f"{rung}_passed"] = str(counts.get("pass", 0))
        row[f"{rung}_broken"] = str(sum(counts.get(v, 0) for v in ("fail", "error", "timeout")))
    return row
