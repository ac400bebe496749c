"""A run as JUnit XML, as CI servers read it: a suite for each rung, a test case for each verdict.

A failure is a wrong result, an error is none at all (it raised, crashed, timed out). What was not graded
or is waived is skipped. A run that was interrupted, or in which nothing was graded, has a test case that
says so, since a server takes a file without failures for a success.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from conformance.reports.account import account, named, shortcomings
from conformance.reports.model import Graded, Report, Verdict
from conformance.reports.reading import report_of
from conformance.reports.words import fact, pick
from conformance.results.store import Results

TAGS = {
    "fail": "failure",
    "error": "error",
    "timeout": "error",
    "unsupported": "skipped",
    "waived": "skipped",
}
MESSAGE = 500
"""Characters of a message, which stands in an attribute."""


def render(results: Results, lang: str = "en") -> str:
    """The XML document."""
    report = report_of(results)
    target = report.facts.get("target", "") or "?"
    suites = [_suite(report, rung.name, target, lang) for rung in report.ladder if not rung.empty]
    if extra := shortcomings(report, lang):
        suites.append(_run_suite(extra, target))
    root = ET.Element("testsuites", name=f"conformance {target}")
    root.extend(suites)
    _count(root, suites)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(report: Report, rung: str, target: str, lang: str) -> ET.Element:
    suite = ET.Element("testsuite", name=rung)
    properties = ET.SubElement(suite, "properties")
    for name, value in {"target": target, **report.facts}.items():
        ET.SubElement(properties, "property", name=name, value=pick(fact(name, value), lang))
    for note in report.notes:
        ET.SubElement(properties, "property", name="note", value=pick(note, lang))
    for graded in report.graded:
        for verdict in graded.verdicts:
            if verdict.rung == rung:
                suite.append(_case(graded, verdict, lang))
    return suite


def _case(graded: Graded, verdict: Verdict, lang: str) -> ET.Element:
    claim = graded.claim
    case = ET.Element(
        "testcase", classname=f"{verdict.rung}.{claim.question or verdict.claim.partition('.')[0]}",
        name=named(verdict), time=f"{verdict.seconds:.6f}",
    )  # fmt: skip
    if verdict.where and verdict.where.file:
        case.set("file", verdict.where.file)
        if verdict.where.line:
            case.set("line", verdict.where.line)
    properties = ET.SubElement(case, "properties")
    facts = {
        "claim": verdict.claim, "level": verdict.level, "question": claim.question, "title": pick(claim.title, lang),
        "case": verdict.case, "variant": verdict.variant, "dtype": verdict.dtype, "verdict": verdict.verdict,
        "margin": verdict.off, "mistake": " ".join(m.id for m in verdict.diagnosis),
    }  # fmt: skip
    for name, value in facts.items():
        if value:
            ET.SubElement(properties, "property", name=name, value=value)
    for statement in claim.statements:
        ET.SubElement(properties, "property", name="statement", value=statement)
    if verdict.verdict != "pass":
        # A verdict that this tool does not know is no success.
        found = ET.SubElement(case, TAGS.get(verdict.verdict, "error"))
        found.set("message", pick(verdict.summary, lang)[:MESSAGE])
        if found.tag != "skipped":
            found.set("type", verdict.verdict)
            found.text = account(graded, verdict, lang)
    return case


def _run_suite(extra: Sequence[tuple[str, str]], target: str) -> ET.Element:
    suite = ET.Element("testsuite", name="run")
    for name, message in extra:
        case = ET.SubElement(suite, "testcase", classname="run", name=name, file=target, time="0")
        ET.SubElement(case, "error", message=message[:MESSAGE], type="not graded")
    return suite


def _count(root: ET.Element, suites: Sequence[ET.Element]) -> None:
    seconds = 0.0
    for suite in suites:
        cases = suite.findall("testcase")
        time = sum(float(case.get("time", "0")) for case in cases)
        seconds += time
        suite.set("tests", str(len(cases)))
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
        suite.set("time", f"{time:.6f}")
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    root.set("time", f"{seconds:.6f}")
