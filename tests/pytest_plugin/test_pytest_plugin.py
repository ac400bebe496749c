"""`pytest PACK --target FILE`: the verdicts of `conformance run`, with everything that people know from pytest."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from conformance.locations import bundled

SOFTMAX = """
def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
"""
RMS_NORM = """
def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight
"""
OVER_EVERYTHING = SOFTMAX.replace("x.max(axis=axis", "x.max(axis=None").replace(
    "e.sum(axis=axis", "e.sum(axis=None"
)
SOFTMAX_FILE = "pack/claims/q007-scale-and-softmax.yaml"
FEW = "q007.softmax or q008.rms-norm"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of its own with a pack in it, and no configuration of ours."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(bundled("spec") / "forward-pass", tmp_path / "pack")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def adapter(body: str, name: str = "mine.py") -> str:
    Path(name).write_text("import numpy as np\n" + body, encoding="utf-8")
    return name


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "pytest", *args]


def run(*args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command(*args), capture_output=True, text=True, encoding="utf-8")


def outcomes(junit: str) -> dict[tuple[str, str], str]:
    """passed, failed or skipped by claim and case, from a JUnit file."""
    found = {}
    for case in ET.parse(junit).iter("testcase"):
        claim, inner = re.fullmatch(r"(.*)\[(.*)\]", case.attrib["name"]).groups()
        kinds = {child.tag for child in case} & {"failure", "skipped", "error"}
        found[claim, inner] = {"failure": "failed", "skipped": "skipped"}.get(
            min(kinds, default=""), "passed"
        )
        assert "error" not in kinds
    return found


def graded(target: str) -> dict[tuple[str, str], str]:
    """The same of `conformance run`."""
    done = subprocess.run(
        [sys.executable, "-m", "conformance", "run", target, "--pack", "pack"], capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr
    words = {"pass": "passed", "unsupported": "skipped"}
    lines = map(json.loads, Path("conformance-report/results.jsonl").read_text(encoding="utf-8").splitlines())
    return {
        (line["claim"], line["case"]): words.get(line["verdict"], "failed")
        for line in lines
        if line["kind"] == "verdict"
    }


# -- verdicts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("processes", ["0", "2"])
def test_the_verdicts_are_those_of_conformance_run(processes):
    target = adapter(
        OVER_EVERYTHING + RMS_NORM + "def ffn(x, w_1, b_1, w_2, b_2):\n    import os; os._exit(0)\n"
    )
    done = run("pack", "--target", target, "-q", "-n", processes, "--junitxml", "junit.xml")
    assert done.returncode == 1, done.stdout
    ours = outcomes("junit.xml")
    theirs = graded(target)
    assert {key: ours[key] for key in theirs} == theirs
    # What is left are items that turn out not to apply.
    assert {ours[key] for key in ours.keys() - theirs.keys()} <= {"skipped"}
    assert set(theirs.values()) == {"passed", "failed", "skipped"}
    assert ours["q008.rms-norm", "rms-norm-plain"] == "passed"
    assert ours["q008.ffn", "ffn-plain"] == "failed"
    assert ours["q005.logits", "model-plain"] == "skipped"


def test_a_failure_is_our_explanation_and_no_traceback():
    target = adapter(OVER_EVERYTHING.replace("    e =", '    print("seen from inside")\n    e =', 1))
    done = run("pack", "--target", target, "-k", "q007.softmax-sums-to-one", "-x")
    assert done.returncode == 1
    text = done.stdout
    assert "fail: Softmax sums to one (q007.softmax-sums-to-one, MUST, Q7.2)" in text
    assert "the entries must sum to 1" in text
    assert re.search(r"is 0\.\d+, expected 1", text)
    assert "Softmax sums to one" in text
    assert "this claim alone: conformance run mine.py --select q007.softmax-sums-to-one" in text
    assert "Traceback" not in text
    assert "conformance/" not in text.replace(str(Path.cwd()), "")
    assert "seen from inside" in text


def test_a_skip_says_what_is_missing():
    done = run("pack", "--target", adapter(SOFTMAX), "-rs", "-k", "q005.logits or q008.swiglu", "-q")
    assert done.returncode == 0
    assert "unsupported: the target defines no `Model`" in done.stdout
    assert "unsupported: the target defines no `swiglu`" in done.stdout


def test_junit_carries_claim_and_statements():
    run("pack", "--target", adapter(SOFTMAX), "-q", "-k", "q007.softmax-odds", "--junitxml", "junit.xml")
    case = next(ET.parse("junit.xml").iter("testcase"))
    properties = {p.attrib["name"]: p.attrib["value"] for p in case.iter("property")}
    assert properties == {"claim": "q007.softmax-odds", "statements": "Q7.9 Q7.10"}


# -- ids and options of pytest ----------------------------------------------------------------------


def collected(*args: str) -> list[str]:
    done = run("--collect-only", "-q", *args)
    assert done.returncode == 0, done.stdout
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_ids_are_file_claim_and_case():
    ids = collected("pack", "--target", adapter(SOFTMAX))
    assert f"{SOFTMAX_FILE}::q007.softmax[softmax-last-axis]" in ids
    assert len(set(ids)) == len(ids)
    assert {line.partition("::")[0] for line in ids} == {
        f"pack/claims/{path.name}" for path in Path("pack/claims").glob("q*.yaml")
    }  # graph.yaml is not asked of an adapter


def test_ids_name_variant_and_dtype_where_there_are_several():
    several = 'variant = ["gpt2", "llama"]\ndtype = ["float32", "float64"]\n' + RMS_NORM
    ids = collected("pack", "--target", adapter(several), "-k", "q008.rms-norm-eps")
    assert [line.partition("::")[2] for line in ids] == [
        f"q008.rms-norm-eps[rms-norm-small-{variant}-{dtype}]"
        for dtype in ("float32", "float64")
        for variant in ("gpt2", "llama")
    ]
    one = collected(
        "pack", "--target", "mine.py", "--target-variant", "llama", "--target-dtype", "float64", "-k", "q008.rms-norm-eps"
    )  # fmt: skip
    assert [line.partition("::")[2] for line in one] == ["q008.rms-norm-eps[rms-norm-small]"]


def test_one_file_one_item_and_k():
    target = adapter(SOFTMAX)
    assert all(line.startswith(SOFTMAX_FILE) for line in collected(SOFTMAX_FILE, "--target", target))
    one = f"{SOFTMAX_FILE}::q007.softmax[softmax-last-axis]"
    done = run(one, "--target", target)
    assert (done.returncode, "1 passed" in done.stdout) == (0, True)
    ids = collected("pack", "--target", target, "-k", "softmax-odds and not first")
    assert [line.partition("::")[2] for line in ids] == ["q007.softmax-odds[softmax-last-axis]"]


def test_x_stops_at_the_first_failure_and_lf_begins_with_it():
    target = adapter(OVER_EVERYTHING)
    first = run("pack", "--target", target, "-x", "-q", "-k", FEW)
    assert first.returncode == 1
    assert "1 failed" in first.stdout
    assert "stopping after 1 failures" in first.stdout
    adapter(SOFTMAX)
    again = run("pack", "--target", target, "--lf", "-q", "-k", FEW)
    assert again.returncode == 0, again.stdout
    assert "1 passed" in again.stdout


def test_a_seed_of_ones_own():
    target = adapter(SOFTMAX)
    done = run("pack", "--target", target, "--target-seed", "5", "-q", "-k", FEW)
    assert done.returncode == 0, done.stdout


# -- wrong targets --------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [[], ["-n", "2"]])
@pytest.mark.parametrize(
    ("body", "args", "message"),
    [
        (None, [], "--target: mine.py does not exist; did you mean 'mime.py'?"),
        ("x = 1 / 0", [], "target: mine.py: it raised ZeroDivisionError while it was imported ("),
        (
            SOFTMAX,
            ["--target-variant", "lama"],
            "--target-variant is 'lama'; the pack knows minimal, gpt2, llama,",
        ),
        ('variant = "lama"' + SOFTMAX, [], "target: the file's `variant` is 'lama'"),
        (SOFTMAX, ["--target-python", "nowhere"], "engine: the interpreter nowhere cannot be started"),
        (SOFTMAX, ["--target-dtype", "float31"], "invalid choice: 'float31'"),
    ],
)
def test_a_wrong_target_is_a_usage_error_said_once(more, body, args, message):
    adapter(SOFTMAX, "mime.py")
    if body is not None:
        adapter(body)
    done = run("pack", "--target", "mine.py", "-q", *args, *more)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout
    assert done.stderr.count(message) == 1, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "mime.py" not in done.stdout


def test_a_bad_pack_is_a_usage_error():
    file = Path(SOFTMAX_FILE)
    file.write_text(
        file.read_text(encoding="utf-8").replace("of: softmax\n", "of: sofmax\n", 1), encoding="utf-8"
    )
    done = run("pack", "--target", adapter(SOFTMAX), "-q")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: pack: " in done.stderr
    assert "unknown operation 'sofmax' (did you mean 'softmax'?)" in done.stderr


# -- without the option ---------------------------------------------------------------------------


def test_without_the_option_the_plugin_collects_nothing():
    Path("test_mine.py").write_text("def test_one():\n    pass\n")
    done = run("-q")
    assert done.returncode == 0
    assert "1 passed" in done.stdout
    assert run("pack", "-q").returncode == pytest.ExitCode.NO_TESTS_COLLECTED


def test_the_plugin_imports_nothing_of_ours_before_it_is_used():
    program = (
        "import sys, pytest; pytest.main(['--collect-only', '-q']); "
        "print(sorted(m for m in sys.modules if m.partition('.')[0] in ('conformance', 'numpy', 'yaml')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "['conformance', 'conformance.pytest_plugin']"


def test_yaml_files_that_are_no_claims_of_a_pack_are_left_alone():
    Path("claims").mkdir()
    Path("claims/other.yaml").write_text("claims: []\n")
    assert run("claims", "--target", adapter(SOFTMAX), "-q").returncode == pytest.ExitCode.NO_TESTS_COLLECTED


def test_help_explains_the_options():
    text = " ".join(run("--help").stdout.split())
    assert "--target=FILE" in text
    assert "adapter file to grade" in text


# -- interrupted ----------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_the_run_and_the_target_s_process():
    target = adapter(
        SOFTMAX + "def rms_norm(x, weight, eps):\n"
        f"    import os, time; open({str(Path.cwd() / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)\n"
    )
    process = subprocess.Popen(
        command("pack", "--target", target, "-k", FEW),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    until = time.monotonic() + 60
    while not Path("pid").is_file() or not Path("pid").read_text():
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt" in out
    assert re.search(r"\d+ passed", out)
    with pytest.raises(ProcessLookupError):
        os.kill(int(Path("pid").read_text()), 0)
