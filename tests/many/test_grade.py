"""`conformance grade`: every submission gets its row, whatever it is, and none costs another its own."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conformance.results.schema import faults_of_file

GOOD = """import numpy as np
def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
"""
WRONG = GOOD.replace("return e / e.sum", "return 2 * e / e.sum")
FEW = ("--select", "q007.softmax,q007.softmax-sums-to-one")


def grade(*args: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "conformance", "grade", *map(str, args)]
    return subprocess.run(words, capture_output=True, text=True, cwd=cwd)


def rows(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "grades.csv").open(encoding="utf-8", newline="") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A class with everything that can be handed in, graded once."""
    home = tmp_path_factory.mktemp("home")
    folder = home / "class"
    folder.mkdir()
    for name, text in {
        "alice.py": GOOD,
        "bob.py": WRONG,
        "carol.py": WRONG,
        "<script>alert(1)</script>".replace("/", "_") + " 名.py": GOOD,
        "=1+1.py": GOOD,
        "hf:x.py": GOOD,
        "syntax.py": "def (",
        "nothing.py": "",
        "stops.py": "import os, signal, time\nos.kill(os.getppid(), signal.SIGINT)\ntime.sleep(5)\n",
        "stops_all.py": "import os, signal, time\nos.killpg(os.getpgid(os.getppid()), signal.SIGINT)\ntime.sleep(5)\n",
        "kills.py": "import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(5)\n",
        "exits.py": "import os\nos._exit(0)\n",
        "notes.txt": "not a submission",
        ".hidden.py": GOOD,
        "__init__.py": "",
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name in ("alice", "empty", "two", "many", "linked"):
        (folder / name).mkdir()
    (folder / "alice" / "model.py").write_text(WRONG)
    (folder / "two" / "model.py").write_text(GOOD)
    (folder / "two" / "train.py").write_text("import model\nraise SystemExit\n")
    for name in ("a.py", "b.py"):
        (folder / "many" / name).write_text(GOOD)
    (folder / "linked" / "mine.py").symlink_to(folder / "alice.py")
    (folder / "copy.py").symlink_to("alice.py")
    (folder / "circle.py").symlink_to("circle.py")
    (folder / "gone.py").symlink_to("nowhere.py")
    os.mkfifo(folder / "pipe.py")
    done = grade("class", *FEW, "-o", "out", cwd=home)
    return home / "out", done


OUTCOMES = {
    "alice.py": ("conforms", ""),
    "bob.py": ("does not conform", ""),
    "<script>alert(1)<_script> 名.py": ("conforms", ""),
    "'=1+1.py": ("conforms", ""),
    "hf:x.py": ("conforms", ""),
    "syntax.py": ("nothing graded", "SyntaxError"),
    "nothing.py": ("nothing graded", "defines no `softmax`"),
    "stops.py": ("nothing graded", "stopped by an interrupt"),
    "stops_all.py": ("nothing graded", "stopped by an interrupt"),
    "kills.py": ("nothing graded", "killed by SIGKILL"),
    "exits.py": ("nothing graded", "while it was imported"),
    "alice": ("does not conform", ""),
    "empty": ("nothing graded", "the folder is empty"),
    "two": ("conforms", ""),
    "many": ("nothing graded", "which file is it? a.py, b.py"),
    "linked": ("nothing graded", "leads out of the submission's folder"),
    "copy.py": ("conforms", ""),
    "circle.py": ("nothing graded", "a link to a file that does not exist"),
    "gone.py": ("nothing graded", "a link to a file that does not exist"),
    "pipe.py": ("nothing graded", "no ordinary file"),
}


def test_every_row_is_written(graded):
    folder, done = graded
    assert (done.returncode, done.stderr) == (0, "")
    found = rows(folder)
    assert set(found) == {*OUTCOMES, "carol.py"}
    for name, (outcome, reason) in OUTCOMES.items():
        assert (name, found[name]["outcome"]) == (name, outcome)
        assert reason in found[name]["reason"], name
    assert found["bob.py"]["fail"] == "12"
    assert found["bob.py"]["pass"] == "0"
    assert found["alice.py"]["operation_passed"] == "12"


def test_each_has_a_report_of_its_own(graded):
    folder, _ = graded
    from urllib.parse import unquote

    links = [unquote(row["report"]) for row in rows(folder).values()]
    assert len(links) == len(set(links))
    for link in links:
        page = folder / link
        assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
        results = (page.parent / "results.jsonl").read_text(encoding="utf-8")
        assert list(faults_of_file(results)) == []
        for line in results.splitlines():
            assert json.loads(line)["kind"] in ("run", "claim", "verdict", "end")


def test_the_table_has_a_row_for_each_and_escapes_their_names(graded):
    page = (graded[0] / "index.html").read_text(encoding="utf-8")
    assert page.count("<script>") == 1
    assert "&lt;script&gt;alert(1)&lt;_script&gt; 名.py" in page
    body = page[page.index("<tbody>") : page.index("</tbody>")]
    assert body.count("<tr") == len(OUTCOMES) + 1
    # Fewest problems first, and what got no verdict last.
    order = [body.index(f">{name}</") for name in ("alice.py", "bob.py", "syntax.py")]
    assert order == sorted(order)


def test_what_is_printed_is_a_line_for_each_and_a_sum(graded):
    printed = graded[1].stdout.splitlines()
    assert len(printed) == len(OUTCOMES) + 1 + 2
    assert printed[-2] == (
        "21 submissions: conforms in all it offers 6, does not conform 3, nothing graded 12"
    )
    assert printed[-1] == "out/index.html"


@pytest.fixture
def home(tmp_path):
    for name, text in {"alice.py": GOOD, "bob.py": WRONG}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_files_are_submissions_and_a_second_run_replaces_the_table(home):
    (home / "carol").mkdir()
    (home / "carol" / "x.py").write_text(GOOD)
    done = grade("alice.py", "bob.py", "carol", *FEW, "--quiet", cwd=home)
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 2)
    folder = home / "conformance-grades"
    assert list(rows(folder)) == ["alice.py", "bob.py", "carol"]
    done = grade("alice.py", *FEW, "--format", "json", cwd=home)
    assert [row["outcome"] for row in json.loads(done.stdout)] == ["conforms"]
    assert list(rows(folder)) == ["alice.py"]


def test_names_that_a_file_system_takes_for_one_have_folders_of_their_own(tmp_path):
    from conformance.many.submissions import Submission, with_folders

    names = [
        "a.py",
        "A.py",
        "a",
        "index.html.py",
        "...",
        "",
        "名.py",
        "x" * 300,
        "x" * 301,
        "a/b",
        "é.py",
        "e\u0301.py",
    ]
    folders = [s.folder for s in with_folders([Submission(name, (name,), tmp_path) for name in names])]
    assert len({folder.casefold() for folder in folders}) == len(names)
    for folder in folders:
        assert folder not in ("index.html", "grades.csv", "", ".", "..")
        (tmp_path / folder).mkdir()
    assert folders[0] == "a"


def test_a_roster_names_them_and_its_columns_are_kept(home):
    (home / "roster.csv").write_text(
        "﻿name,target,group\nAlice,alice.py,1\nBob,bob.py,=2\nCarol,,1\nDave,dave.py,2\n,,\n", encoding="utf-8"
    )
    done = grade("roster.csv", *FEW, cwd=home)
    assert (done.returncode, done.stderr) == (0, "")
    found = rows(home / "conformance-grades")
    assert [(name, row["outcome"], row["group"]) for name, row in found.items()] == [
        ("Alice", "conforms", "1"),
        ("Bob", "does not conform", "'=2"),
        ("Carol", "nothing graded", "1"),
        ("Dave", "nothing graded", "2"),
    ]
    assert "nothing was handed in" in found["Carol"]["reason"]
    assert "dave.py does not exist" in found["Dave"]["reason"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nowhere"], "usage: nowhere does not exist"),
        (["void"], "usage: void: no file .py or .onnx and no folder to grade"),
        (["alice.py", "--select", "q999.*"], "usage: --select"),
        (["bad.csv"], "usage: bad.csv: a roster has a column `target`; it has who, what"),
        (["alice.py", "--python", "/nowhere/python"], "engine: the interpreter /nowhere/python cannot be started"),
        (["alice.py", "-o", "taken"], "report: the reports cannot be written to taken"),
    ],
)  # fmt: skip
def test_what_cannot_begin_is_status_2_and_one_message(home, args, message):
    (home / "void").mkdir()
    (home / "taken").touch()
    (home / "bad.csv").write_text("who,what\na,b\n")
    done = grade(*args, cwd=home)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bundled_adapter_reads_a_file_of_each_folder(tmp_path):
    for name in ("ann", "ben"):
        (tmp_path / "class" / name / "tests").mkdir(parents=True)
    (tmp_path / "class" / "ann" / "tests" / "adapters.py").write_text(
        "import torch\ndef run_softmax(in_features, dim):\n    return torch.softmax(in_features, dim)\n"
    )
    done = grade(
        "class", "--entry", "tests/adapters.py", "--adapter", "cs336", *FEW, cwd=tmp_path
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    found = rows(tmp_path / "conformance-grades")
    assert (found["ann"]["outcome"], found["ben"]["outcome"]) == ("conforms", "nothing graded")
    assert "holds no tests/adapters.py" in found["ben"]["reason"]


def test_interrupted_it_keeps_what_is_done_and_leaves_no_process(home):
    (home / "slow.py").write_text(GOOD.replace("    e =", "    import time; time.sleep(8)\n    e ="))
    words = [sys.executable, "-m", "conformance", "grade", "alice.py", "slow.py", "bob.py", "-j", "1", *FEW]
    process = subprocess.Popen(
        words, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    slow = home / "conformance-grades" / "slow" / "results.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (slow.is_file() and slow.stat().st_size):
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Interrupted" in err
    assert "Traceback" not in err
    found = rows(home / "conformance-grades")
    assert [found[name]["outcome"] for name in ("alice.py", "slow.py", "bob.py")] == [
        "conforms", "interrupted", "interrupted",
    ]  # fmt: skip
    assert "index.html" in out


def test_rows_that_are_not_forked_come_to_the_same(home, monkeypatch):
    from conformance.cli.options import pack_folder
    from conformance.many import pool
    from conformance.many.row import Job
    from conformance.many.submissions import Finder
    from conformance.results.store import read_results

    monkeypatch.setattr(pool, "forks", lambda: False)
    options = {
        "select": (FEW[1],), "require": (), "variants": (), "dtypes": (), "seed": 0, "python": None, "timeout": 10.0,
        "memory": 4096, "waive": None,
    }  # fmt: skip
    found = Finder(["softmax"]).find([home])
    jobs = [Job(s, pack_folder(None), home / "out" / s.folder, options, None, "en") for s in found]
    rows = pool.Pool(2).run(jobs)
    assert [(row.side, row.message.en) for row in rows] == [("", ""), ("", "")]
    assert [read_results(job.output).end["conforms"] for job in jobs] == [True, False]
