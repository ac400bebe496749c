"""What `run` prints: the summary, or a document of a format that is nothing else."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_helpers import FEW, GOOD_RMS_NORM, GOOD_SOFTMAX, adapter, conformance, flat

WRONG = "def softmax(x, axis):\n    return 0 * x\n" + GOOD_RMS_NORM
NOISY = 'print("on import")\n' + GOOD_SOFTMAX.replace("    e =", '    print("in a call")\n    e =', 1)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def process(*args: str) -> "subprocess.CompletedProcess[str]":
    """The real command: what a library writes to a descriptor would be seen, too."""
    return subprocess.run(
        [sys.executable, "-m", "conformance", *args], capture_output=True, text=True, encoding="utf-8"
    )


@pytest.mark.parametrize(("body", "status"), [(NOISY, 0), (WRONG, 1), ("", 3)])
def test_json_is_all_that_stdout_holds(body, status, tmp_path):
    adapter(tmp_path, body)
    done = process("run", "mine.py", "--select", FEW, "--format", "json")
    assert done.returncode == status
    document = json.loads(done.stdout)
    assert document["run"]["target"] == "mine.py"
    assert document["end"]["conforms"] is (status == 0)
    assert {"claim", "case", "verdict"} <= set(document["verdicts"][0])
    assert (done.stderr == "") is (status != 3)
    assert len(done.stderr.splitlines()) <= 2


def test_json_says_what_the_results_file_says(tmp_path):
    adapter(tmp_path, WRONG)
    document = json.loads(conformance("run", "mine.py", "--select", FEW, "--format", "json").stdout)
    again = json.loads(conformance("report", "conformance-report", "--to", "json").stdout)
    assert document == again


def test_markdown_is_all_that_stdout_holds(tmp_path):
    adapter(tmp_path, NOISY)
    done = process("run", "mine.py", "--select", FEW, "--format", "markdown")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("### ✅ `mine.py` conforms")


def test_nothing_goes_to_stderr_where_all_is_well(tmp_path):
    adapter(tmp_path, NOISY)
    done = process("run", "mine.py", "--select", FEW)
    assert (done.returncode, done.stderr) == (0, "")
    assert flat(done.stdout).startswith("conforms in all it offers: ")
    assert "\x1b" not in done.stdout  # no colours where nobody looks


def test_quiet_prints_the_verdict_only(tmp_path):
    adapter(tmp_path)
    result = conformance("run", "mine.py", "--select", FEW, "-q")
    assert flat(result.stdout).startswith("conforms in all it offers: ")
    assert len(result.stdout.splitlines()) <= 2
    assert Path("conformance-report/report.html").is_file()


def test_a_summary_in_chinese(tmp_path):
    adapter(tmp_path)
    result = conformance("run", "mine.py", "--select", FEW, "--lang", "zh")
    assert "在其提供的范围内全部符合" in result.stdout
    assert result.stdout.endswith("报告: conformance-report/report.html\n")


def test_the_ladder_names_the_first_broken_rung_and_the_place(tmp_path):
    adapter(tmp_path, WRONG)
    result = conformance("run", "mine.py", "--select", FEW)
    assert result.exit_code == 1
    assert "← first broken" in next(
        line for line in result.stdout.splitlines() if line.startswith("operation")
    )
    assert "q007.softmax" in result.stdout
    assert "return 0 * x" in result.stdout


@pytest.mark.parametrize("command", ["run", "new", "report", "spec", "spec list", "spec show", "spec check"])
def test_every_command_has_an_example(command):
    result = conformance(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Example: conformance " in flat(result.stdout)


def test_spec_list_and_show():
    listed = conformance("spec", "list", "--select", "question:Q007,!rung:model")
    assert listed.exit_code == 0
    rows = listed.stdout.splitlines()
    assert rows
    assert all(row.startswith("q007.") for row in rows)
    assert not any(" model " in row[:80] for row in rows)
    shown = conformance("spec", "show", "q007.sums-to-one")
    assert "sum(weights, over=key) == 1" in shown.stdout
    assert "Q7.2" in shown.stdout
    assert "每行权重之和为 1" in conformance("spec", "show", "q007.sums-to-one", "--lang", "zh").stdout


def test_spec_show_of_nothing():
    result = conformance("spec", "show", "q007.sums-to-two")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no claim, statement, case, mistake or tensor 'q007.sums-to-two'" in result.stderr
    assert "did you mean 'q007.sums-to-one'?" in result.stderr
