"""Where results go: a folder that cannot be written, or a disk that is full, costs no verdict that was written."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from cli_helpers import FEW, GOOD_RMS_NORM, adapter, conformance, end, lines, verdicts

from conformance.results import store

WRONG = "def softmax(x, axis):\n    return 0 * x\n" + GOOD_RMS_NORM


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    adapter(tmp_path)


def test_a_file_in_place_of_the_folder():
    Path("out").touch()
    result = conformance("run", "mine.py", "--select", FEW, "-o", "out")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "report: the report cannot be written to out: File exists; choose another folder with -o DIR\n"
    )


def test_a_file_in_place_of_a_folder_above():
    Path("out").touch()
    result = conformance("run", "mine.py", "--select", FEW, "-o", "out/inner")
    assert result.exit_code == 2
    assert result.stderr.startswith("report: the report cannot be written to out/inner: Not a directory; ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to a folder that is read-only")
def test_a_folder_that_is_read_only():
    Path("out").mkdir(mode=0o500)
    result = conformance("run", "mine.py", "--select", FEW, "-o", "out")
    assert result.exit_code == 2
    assert result.stderr.startswith("report: the report cannot be written to out: Permission denied; ")


def test_folders_are_made():
    assert conformance("run", "mine.py", "--select", FEW, "-o", "a/b/c").exit_code == 0
    assert sorted(path.name for path in Path("a/b/c").iterdir()) == ["report.html", "results.jsonl"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_a_disk_that_is_full_from_the_start():
    Path("out").mkdir()
    Path("out/results.jsonl").symlink_to("/dev/full")
    result = conformance("run", "mine.py", "--select", FEW, "-o", "out")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "report: out/results.jsonl cannot be written any further: No space left on device; "
        "what was graded so far is in it. Make room, or choose another folder with -o DIR\n"
    )


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs a limit on the size of files")
def test_a_disk_that_fills_up_keeps_the_verdicts_so_far():
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000)); "
        "from conformance.cli import main; main(sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "run", "mine.py", "--select", FEW, "-o", "out"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("report: out/results.jsonl cannot be written any further: File too large; ")
    assert len(done.stderr.splitlines()) == 1
    kept = verdicts(Path("out"))
    assert kept
    assert {line["verdict"] for line in kept} == {"pass"}
    assert lines(Path("out"))[-1]["kind"] != "end"


def test_a_report_that_cannot_be_written_leaves_the_results():
    Path("out/report.html").mkdir(parents=True)
    result = conformance("run", "mine.py", "--select", FEW, "-o", "out")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("report: out/report.html cannot be written: Is a directory; ")
    assert end(Path("out"))["conforms"] is True


def test_arrays_that_cannot_be_written_leave_the_results_so_far():
    adapter(Path.cwd(), WRONG)
    Path("out").mkdir()
    Path("out/reproduce").touch()
    result = conformance("run", "mine.py", "--select", FEW, "-o", "out")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("report: out/reproduce/softmax-")
    assert lines(Path("out"))[0]["kind"] == "run"


def test_a_writer_that_fails_half_way_has_written_whole_lines_until_then(tmp_path):
    with store.Writer(tmp_path) as writer:
        writer.write({"kind": "run"})

        def full(text: str) -> int:
            raise OSError(28, "No space left on device")

        broken = type(
            "Full", (), {"write": staticmethod(full), "flush": lambda _: None, "close": lambda _: None}
        )()
        real, writer._file = writer._file, broken
        with pytest.raises(store.StoreError, match="No space left on device"):
            writer.write({"kind": "claim"})
        writer._file = real
    assert lines(tmp_path) == [{"kind": "run"}]


# -- what is in it --------------------------------------------------------------------------------


def test_a_passing_run_leaves_results_and_report_and_nothing_else():
    result = conformance("run", "mine.py", "--select", FEW)
    assert result.exit_code == 0
    folder = Path("conformance-report")
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", "results.jsonl"]
    assert result.stdout.endswith("Report: conformance-report/report.html\n")
    kinds = [line["kind"] for line in lines(folder)]
    assert kinds[0] == "run"
    assert kinds[-1] == "end"
    assert set(kinds[1:-1]) == {"claim", "verdict"}
    # Each claim is said once, before its first verdict.
    said: set[str] = set()
    for line in lines(folder):
        if line["kind"] == "claim":
            assert line["id"] not in said
            said.add(line["id"])
        elif line["kind"] == "verdict":
            assert line["claim"] in said


def test_a_failing_run_leaves_arrays_that_reproduce_the_failure():
    adapter(Path.cwd(), WRONG)
    assert conformance("run", "mine.py", "--select", "q007.softmax", "-o", "out").exit_code == 1
    line = verdicts(Path("out"), "q007.softmax")[0]
    assert line["reproduce"].count("out/reproduce/softmax-last-axis") == 1
    assert list(Path("out/reproduce").glob("softmax-last-axis-*.npz"))
    done = subprocess.run([sys.executable, "-c", line["reproduce"]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "0.0" in done.stdout


def test_results_fit_their_schema():
    from conformance.results.schema import faults_of_file

    adapter(Path.cwd(), WRONG.replace("    return 0", '    print("here")\n    return 0'))
    conformance("run", "mine.py", "--select", FEW, "-o", "out")
    assert list(faults_of_file(Path("out/results.jsonl").read_text(encoding="utf-8"))) == []


def test_a_second_run_replaces_the_first():
    conformance("run", "mine.py", "--select", FEW, "-o", "out")
    adapter(Path.cwd(), WRONG)
    conformance("run", "mine.py", "--select", FEW, "-o", "out")
    assert [line["kind"] for line in lines(Path("out"))].count("run") == 1
    assert end(Path("out"))["conforms"] is False
