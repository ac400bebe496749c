"""A run in the Common Test Report Format (CTRF): one JSON document with a test for each verdict."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from conformance.reports.account import account, named, shortcomings
from conformance.reports.json_report import safe_json
from conformance.reports.model import Graded, Verdict
from conformance.reports.reading import report_of
from conformance.reports.words import fact, pick
from conformance.results.store import Results

STATUSES = {"pass": "passed", "fail": "failed", "error": "failed", "timeout": "failed", "unsupported": "skipped", "waived": "skipped"}  # fmt: skip
SPEC = "0.0.0"
"""The version of CTRF's document format."""


def render(results: Results, lang: str = "en") -> str:
    """The document. A results file has no time of day: its tests begin at the epoch."""
    report = report_of(results)
    tests = [_test(graded, verdict, lang) for graded in report.graded for verdict in graded.verdicts]
    for name, message in shortcomings(report, lang):
        tests.append({"name": name, "status": "failed", "duration": 0, "suite": ["run"], "message": message})
    statuses = Counter(test["status"] for test in tests)
    stop = sum(test["duration"] for test in tests)
    names = ("passed", "failed", "skipped", "pending", "other")
    document = {
        "reportFormat": "CTRF",
        "specVersion": SPEC,
        "generatedBy": "conformance",
        "extra": {"sentence": pick(report.sentence, lang), **{n: pick(fact(n, v), lang) for n, v in report.facts.items()}, "notes": [pick(note, lang) for note in report.notes]},
        "results": {
            "tool": {"name": "conformance", "version": report.facts.get("tool", "")},
            "summary": {
                "tests": len(tests), **{name: statuses[name] for name in names},
                "suites": len({test["suite"][0] for test in tests}), "start": 0, "stop": stop, "duration": stop,
            },
            "tests": tests,
        },
    }  # fmt: skip
    return safe_json(json.dumps(document, ensure_ascii=False, indent=1))


def _test(graded: Graded, verdict: Verdict, lang: str) -> dict[str, Any]:
    claim = graded.claim
    labels: dict[str, Any] = {
        "claim": verdict.claim, "level": verdict.level, "question": claim.question, "case": verdict.case,
        "variant": verdict.variant, "dtype": verdict.dtype, "statements": list(claim.statements),
        "mistakes": [mistake.id for mistake in verdict.diagnosis],
    }  # fmt: skip
    test: dict[str, Any] = {
        "name": named(verdict) or "?",
        "status": STATUSES.get(verdict.verdict, "other"),
        "duration": round(verdict.seconds * 1000),
        "suite": [verdict.rung or "?"],
        "rawStatus": verdict.verdict,
        "type": "conformance",
        "labels": {name: value for name, value in labels.items() if value},
    }
    if verdict.verdict != "pass":
        test["message"] = pick(verdict.summary, lang)
    if verdict.broken:
        test["trace"] = account(graded, verdict, lang)
        if verdict.where and verdict.where.file:
            test["filePath"] = verdict.where.file
            if verdict.where.line.isdigit():
                test["line"] = int(verdict.where.line)
            if verdict.where.text:
                test["snippet"] = verdict.where.text
    return test
