"""Bad targets: one message that names the side at fault and what to do, a status, and what was graded is kept."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_helpers import FEW, GOOD_RMS_NORM, GOOD_SOFTMAX, adapter, conformance, end, flat, lines, verdicts


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# -- files that are not there ---------------------------------------------------------------------


def refused(*args: object) -> str:
    """The message of a run that graded nothing for want of a target."""
    result = conformance("run", *args)
    assert result.exit_code == 3, result.output
    assert result.stdout == ""
    return result.stderr


def test_a_file_that_is_missing():
    assert refused("transformer.py") == "target: transformer.py does not exist\n"


def test_a_file_that_is_misspelt(tmp_path):
    adapter(tmp_path, name="transformer.py")
    adapter(tmp_path, name="other.py")
    assert refused("transfromer.py") == (
        "target: transfromer.py does not exist; did you mean 'transformer.py'?\n"
    )
    (tmp_path / "inner").mkdir()
    adapter(tmp_path / "inner", name="model.py")
    assert "did you mean 'inner/model.py'?" in refused("inner/mdoel.py")


def test_a_folder_is_not_its_own_suggestion(tmp_path):
    (tmp_path / "mine.py").mkdir()
    assert refused("mine.py") == "target: mine.py is a folder\n"


def test_a_file_of_another_kind(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    assert refused("notes.txt") == "target: notes.txt is no .py file\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["numpy_referense"],
            "'numpy_referense' is neither a file nor a bundled adapter (cs336, numpy_reference, pytorch); did you mean 'numpy_reference'?",
        ),
        (["mine.py", "more"], "mine.py takes no further arguments; got more"),
        (["model.onnx", "more"], "model.onnx takes no further arguments; got more"),
        (["hf:gpt2"], "hf:gpt2 needs a map: pass --map map.yaml; there are ready ones for"),
        (["program", "llama"], "program takes no further arguments; got llama (see --variant)"),
    ],
)
def test_words_that_name_no_target(words, message, tmp_path):
    adapter(tmp_path)
    result = conformance("run", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("usage: ")
    assert message in result.stderr


# -- files that cannot be imported ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message", "advice"),
    [
        ("x = 1 / 0", "it raised ZeroDivisionError while it was imported (", "run the file with Python by itself"),
        ("def f(:", "it raised SyntaxError while it was imported (", "run the file with Python by itself"),
        ("import sys; sys.exit(0)", "it raised SystemExit while", "under `if __name__ == "),
        ("import nowhere_to_be_found", "No module named 'nowhere_to_be_found'", "install it there, or name another"),
        ("import os; os._exit(0)", "its process exited with status 0 while", "its import has to end without"),
        ("import ctypes; ctypes.string_at(0)", "its process was killed by signal SIGSEGV while", "its import has to"),
        ("dtype = 'float33'", '`dtype` is "float33" (line 2); it has to be', "correct `dtype` in"),
        ("import conformance", "conformance", "it would grade itself"),
    ],
)  # fmt: skip
def test_an_adapter_that_cannot_be_imported(body, message, advice, tmp_path):
    adapter(tmp_path, body)
    said = refused("mine.py")
    assert said.startswith("target: mine.py: ")
    assert message in said
    assert advice in said
    assert "Traceback" not in said


def test_a_report_of_an_earlier_run_does_not_stay(tmp_path):
    adapter(tmp_path)
    conformance("run", "mine.py", "--select", FEW)
    assert (tmp_path / "conformance-report/report.html").is_file()
    adapter(tmp_path, "x = 1 / 0")
    refused("mine.py")
    assert not (tmp_path / "conformance-report/report.html").exists()


def test_a_variant_that_the_pack_does_not_know(tmp_path):
    adapter(tmp_path, 'variant = "lama"' + GOOD_SOFTMAX)
    assert refused("mine.py") == (
        "target: the file's `variant` is 'lama'; the pack knows minimal, gpt2, llama, vaswani; did you mean 'llama'?\n"
    )


# -- files with nothing to grade ------------------------------------------------------------------


def test_an_adapter_that_defines_nothing_says_what_it_could_define(tmp_path):
    adapter(tmp_path, "")
    result = conformance("run", "mine.py", "-q")
    assert result.exit_code == 3
    assert result.stderr.startswith(
        "target: mine.py offers nothing that can be graded: the target defines no `"
    )
    assert "`conformance new my_transformer.py` writes a file to start from" in result.stderr
    assert flat(result.stdout) == "nothing could be graded"
    assert end(tmp_path / "conformance-report")["conforms"] is False


def test_a_function_that_is_misspelt_or_none_is_what_the_message_begins_with(tmp_path):
    adapter(tmp_path, GOOD_SOFTMAX.replace("softmax", "softmaks") + "rope = 3\n")
    said = conformance("run", "mine.py", "-q").stderr
    assert "the target defines no `softmax`; is `softmaks` meant to be it?" in said
    assert "`rope` is an int, not something to call" in said


def test_a_model_without_a_variant_is_told_the_line_to_add(tmp_path):
    adapter(
        tmp_path,
        "class Model:\n    def __init__(self, config, params): pass\n    def forward(self, tokens): pass\n",
    )
    result = conformance("run", "mine.py", "--select", "rung:model", "-q")
    assert result.exit_code == 3
    assert '`Model` needs a variant: add `variant = "minimal"`' in result.stderr


def test_a_selection_that_leaves_nothing_is_not_the_target_s_fault(tmp_path):
    adapter(tmp_path)
    result = conformance("run", "mine.py", "--select", "variant:llama", "-q")
    assert result.exit_code == 3
    assert (
        result.stderr == "usage: nothing that is selected applies to mine.py\n  see --select and --variant\n"
    )


# -- functions that misbehave ---------------------------------------------------------------------

MISBEHAVIOUR = {
    "hangs": ("while True: pass", "timeout", "`softmax` gave no answer within 1 s"),
    "exits": ("import os; os._exit(0)", "error", "`softmax` ended its process: exited with status 0 in the middle of a call"),
    "ends": ("raise SystemExit(0)", "error", "it raised SystemExit: 0 ("),
    "segfaults": ("import ctypes; ctypes.string_at(0)", "error", "`softmax` ended its process: killed by signal SIGSEGV"),
    "recurses": ("return softmax(x, axis)", "error", "it raised RecursionError: maximum recursion depth exceeded"),
    "raises": ("raise ValueError('no\\nway')", "error", "it raised ValueError: no way ("),
    "asks for too much": ("return np.ones(10**13)", "error", "`softmax` ended its process: out of memory (limit 4096 MB)"),
    "list": ("return good(x, axis).tolist()", "error", "`softmax` returned a list, expected output, a numpy array"),
    "string": ("return 'result'", "error", "`softmax` returned a str, expected output, a numpy array of floats"),
    "nothing": ("pass", "error", "`softmax` returned None, expected output, a numpy array of floats"),
    "object array": ("return good(x, axis).astype(object)", "error", "`softmax` returned an array of dtype object, expected"),
    "wrong shape": ("return good(x, axis)[None]", "fail", "`output` has shape [1, 2, 3, 4, 5], expected [2, 3, 4, 5]"),
    "NaN": ("return good(x, axis) * np.nan", "fail", "`output` at batch 0, head 0, query 0, over 0 is nan"),
    "fails when touched": ("return Touchy()", "error", "`softmax` returned an object of class Touchy, expected output"),
}  # fmt: skip
TOUCHY = """
class Touchy:
    def __getattribute__(self, name): raise RuntimeError("do not touch")
    def __array__(self, *args, **kwargs): raise RuntimeError("do not touch")
"""


@pytest.mark.parametrize("how", MISBEHAVIOUR)
def test_a_function_that_misbehaves_costs_its_own_verdicts_only(how, tmp_path):
    body, verdict, message = MISBEHAVIOUR[how]
    good = GOOD_SOFTMAX.replace("def softmax", "def good")
    adapter(tmp_path, f"{TOUCHY}{good}def softmax(x, axis):\n    {body}\n{GOOD_RMS_NORM}")
    result = conformance("run", "mine.py", "--timeout", 1, "--select", FEW, "-o", "out")
    assert (result.exit_code, result.stderr) == (1, "")
    assert message in flat(result.stdout)
    softmax = verdicts(tmp_path / "out", "q007.softmax")
    assert softmax
    assert {line["verdict"] for line in softmax} == {verdict}
    # What comes afterwards, in a process that may be a new one, is graded as if nothing had been.
    assert {line["verdict"] for line in verdicts(tmp_path / "out", "q008.rms-norm")} == {"pass"}
    assert end(tmp_path / "out")["conforms"] is False


def test_a_function_that_prints_megabytes_is_graded_and_what_it_printed_is_shown_in_part(tmp_path):
    adapter(
        tmp_path,
        'print("imported")' + GOOD_RMS_NORM.replace("    return", '    print("x" * 5_000_000)\n    return'),
    )
    result = conformance("run", "mine.py", "--select", FEW, "-o", "out")
    assert (result.exit_code, result.stderr) == (0, "")
    assert len(result.stdout) < 20_000
    assert "Printed by the submission" in result.stdout
    assert "imported" in result.stdout
    assert "xxxxxxxx" in result.stdout
    assert (tmp_path / "out/results.jsonl").stat().st_size < 100_000


def test_what_a_function_prints_is_shown_once_however_often_it_is_called(tmp_path):
    adapter(tmp_path, GOOD_SOFTMAX.replace("    e =", '    print("shape known")\n    e =', 1))
    result = conformance("run", "mine.py", "--select", FEW)
    assert result.stdout.count("shape known") == 1


def test_warnings_of_a_function_are_shown(tmp_path):
    adapter(tmp_path, GOOD_SOFTMAX.replace("    e =", "    np.log(-np.ones(1))\n    e =", 1))
    result = conformance("run", "mine.py", "--select", FEW)
    assert result.exit_code == 0
    assert "RuntimeWarning: invalid value encountered in log" in flat(result.stdout)


# -- interrupted ----------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_with_130_and_keeps_what_was_graded(tmp_path):
    adapter(tmp_path, GOOD_SOFTMAX + "import time\ndef rms_norm(x, weight, eps):\n    time.sleep(60)\n")
    command = [
        sys.executable,
        "-m",
        "conformance",
        "run",
        "mine.py",
        "--timeout",
        "60",
        "-o",
        "out",
        "--select",
        FEW,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    file, until = Path("out/results.jsonl"), time.monotonic() + 60
    while not file.is_file() or '"q007.softmax-sums-to-one", "rung"' not in file.read_text(encoding="utf-8"):
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert out == ""
    assert err.strip() == "Interrupted; what was graded so far is in out/results.jsonl"
    assert {line["verdict"] for line in verdicts(tmp_path / "out")} == {"pass"}
    assert lines(tmp_path / "out")[-1]["kind"] != "end"
    # And it is read as an interrupted run.
    read = conformance("report", "out", "--to", "markdown")
    assert read.exit_code == 0
    assert "interrupted" in read.stderr
