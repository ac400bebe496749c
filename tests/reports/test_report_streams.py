"""What goes to stdout and what to stderr: in a CI log, into a pipe, on a terminal with and without colours."""

import json
import os
import pty
import re
import subprocess
import sys

import pytest

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
RUN = ["run", "program", "--variant", "llama", "--select", "q007.softmax"]


def conformance(folder, *arguments, **environment):
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("NO_COLOR", "FORCE_COLOR", "TERM", "CI")
    }
    return subprocess.run(
        [sys.executable, "-m", "conformance", *arguments],
        cwd=folder, env={**clean, **environment}, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def on_a_terminal(folder, *arguments, **environment):
    """What a terminal shows of stdout and stderr."""
    mine, theirs = pty.openpty()
    clean = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "CI")
    }
    with subprocess.Popen(
        [sys.executable, "-m", "conformance", *arguments], cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs,
        env={**clean, "TERM": "xterm-256color", "COLUMNS": "80", **environment},
    ) as process:  # fmt: skip
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(mine, 65536):
                shown += part
        except OSError:  # the other end is closed
            pass
        process.wait()
    os.close(mine)
    return shown.decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    (folder / "submissions").mkdir()
    (folder / "submissions" / "ann.py").write_text("def softmax(x, axis): return x\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        [*RUN, "--lang", "zh"], [*RUN, "-q"], ["grade", "submissions", "--select", "q007.softmax"],
        ["grade", "submissions", "--select", "q007.softmax", "-q", "--lang", "zh"], ["spec", "render", "-o", "site"],
    ],
    ids=["run", "run quiet", "grade", "grade quiet", "site"],
)  # fmt: skip
def test_in_a_log_there_is_text_alone_and_nothing_on_stderr(folder, arguments):
    done = conformance(folder, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", done.stdout)
    assert all(line == line.rstrip() for line in done.stdout.split("\n"))


@pytest.mark.parametrize("arguments", [RUN, ["grade", "submissions", "--select", "q007.softmax"]])
def test_json_on_stdout_is_one_document_and_all_there_is(folder, arguments):
    for more in ([], ["-q"]):
        done = conformance(folder, *arguments, "--format", "json", *more)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)


def test_quiet_is_shorter(folder):
    assert conformance(folder, *RUN, "-q").stdout.count("\n") == 1
    assert conformance(folder, *RUN).stdout.count("\n") > 3


def test_a_terminal_has_colours_and_a_progress_that_is_taken_away(folder):
    shown = on_a_terminal(folder, *RUN)
    assert "\x1b[3" in shown or "\x1b[1;3" in shown
    plain = on_a_terminal(folder, *RUN, NO_COLOR="1")
    # Without colours; what moves the cursor, and boldness, may stay.
    assert not re.search(r"\x1b\[(?:\d;)*(?:3[0-7]|9[0-7]|38)", plain)
    assert "conforms in all it offers" in ESCAPE.sub("", plain)
    # A terminal that can do nothing gets nothing.
    assert "\x1b" not in on_a_terminal(folder, *RUN, TERM="dumb")


@pytest.mark.parametrize("columns", ["24", "40"])
def test_a_narrow_terminal_has_no_line_that_breaks_in_it(folder, columns):
    from rich.cells import cell_len

    for lang in ("en", "zh"):
        shown = conformance(folder, *RUN, "--lang", lang, COLUMNS=columns).stdout
        wide = [line for line in shown.split("\n") if cell_len(line) > int(columns)]
        # A table and a path are not broken.
        assert all("  " in line or "/" in line for line in wide)
