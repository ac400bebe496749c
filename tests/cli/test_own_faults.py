"""Faults of our own: said as such, with a status of their own, and no verdict that was reached is lost."""

from pathlib import Path

import pytest
from cli_helpers import FEW, adapter, conformance, end, flat, lines, verdicts

from conformance.diagnosis.naming import Namer
from conformance.judging import golden
from conformance.judging.kinds import KINDS, Kind

WRONG = "def softmax(x, axis):\n    return 0 * x\n"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    adapter(tmp_path, WRONG)


def broken(*args: object, **kwargs: object) -> None:
    raise ZeroDivisionError("ours")


def test_an_explanation_that_fails_leaves_the_verdicts(monkeypatch):
    monkeypatch.setattr(Namer, "explain", broken)
    result = conformance("run", "mine.py", "--select", FEW, "-o", "out")
    assert result.exit_code == 1
    assert result.stderr == (
        "engine: explaining q007.softmax on softmax-last-axis failed: ZeroDivisionError('ours'). "
        "The verdicts stand. This is a defect of conformance; please report it.\n"
    )
    assert flat(result.stdout).startswith("does not conform")
    assert {line["verdict"] for line in verdicts(Path("out"), "q007.softmax")} == {"fail"}
    assert len(end(Path("out"))["faults"]) == len(verdicts(Path("out"), "q007.softmax")) + len(
        verdicts(Path("out"), "q007.softmax-sums-to-one")
    )


def test_judging_that_fails_is_no_verdict_and_keeps_what_was_graded(monkeypatch):
    monkeypatch.setitem(KINDS, "holds", Kind(broken, KINDS["holds"].reads))
    result = conformance("run", "mine.py", "--select", FEW, "-o", "out")
    assert result.exit_code == 70
    assert result.stdout == ""
    assert (
        "engine: judging q007.softmax-sums-to-one on softmax-last-axis failed: ZeroDivisionError: ours"
        in result.stderr
    )
    assert "This is a defect of conformance, not of what it was given." in result.stderr
    assert {line["claim"] for line in verdicts(Path("out"))} == {"q007.softmax"}
    assert lines(Path("out"))[-1]["kind"] == "verdict"


def test_no_fault_is_no_line_on_stderr():
    result = conformance("run", "mine.py", "--select", FEW, "-o", "out")
    assert (result.exit_code, result.stderr) == (1, "")
    assert end(Path("out"))["faults"] == []
    assert KINDS["golden"].judge is golden.judge
