"""Options of `run`: what is selected, required, waived, and what an expression that names nothing costs."""

import datetime as dt
import sys
from pathlib import Path

import pytest
from cli_helpers import FEW, GOOD_RMS_NORM, GOOD_SOFTMAX, adapter, conformance, end, flat, lines, verdicts

from conformance.cli.options import limits_of

WRONG_SOFTMAX = "def softmax(x, axis):\n    return 0 * x\n"
OUT = Path("conformance-report")
TOMORROW = (dt.date.today() + dt.timedelta(days=1)).isoformat()
YESTERDAY = (dt.date.today() - dt.timedelta(days=1)).isoformat()


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    adapter(tmp_path)


def graded(*args: object) -> set[str]:
    """Claims with a verdict other than unsupported."""
    assert conformance("run", "mine.py", *args).exit_code == 0
    return {line["claim"] for line in verdicts(OUT) if line["verdict"] != "unsupported"}


# -- --select ---------------------------------------------------------------------------------------


def test_select_by_id_and_by_glob():
    assert graded("--select", "q007.softmax") == {"q007.softmax"}
    some = graded("--select", "q007.softmax-s*")
    assert "q007.softmax-sums-to-one" in some
    assert all(claim.startswith("q007.softmax-s") for claim in some)


def test_a_comma_is_or_a_repeated_option_is_and_an_exclamation_mark_excludes():
    assert graded("--select", "q007.softmax,q008.rms-norm") == {"q007.softmax", "q008.rms-norm"}
    assert graded("--select", "q007.softmax,q008.rms-norm", "--select", "question:Q008") == {"q008.rms-norm"}
    all_softmax = graded("--select", "q007.softmax*")
    assert graded("--select", "q007.softmax*,!q007.softmax") == all_softmax - {"q007.softmax"}


def test_select_by_rung_level_question_and_dtype():
    everything = graded()
    assert graded("--select", "rung:operation") == everything
    assert graded("--select", "question:q008") == {claim for claim in everything if claim.startswith("q008.")}
    assert graded("--select", "level:must") == {
        line["claim"] for line in verdicts(OUT) if line["level"] == "MUST" and line["verdict"] == "pass"
    }
    assert graded("--select", "dtype:float32") == everything
    assert conformance("run", "mine.py", "--select", "dtype:float64").exit_code == 3


def test_select_by_variant(tmp_path):
    adapter(tmp_path, 'variant = ["minimal", {"base": "llama", "rope_theta": 500000.0}]\n' + GOOD_RMS_NORM)
    conformance("run", "mine.py", "--select", "variant:llama*")
    assert {line["variant"] for line in verdicts(OUT)} == {"llama+rope_theta=500000.0"}


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("q007.sofmax", "no claim is called 'q007.sofmax'; did you mean 'q007.softmax'?"),
        ("q099.*", "no claim is called 'q099.*'"),
        ("runk:operation", "'runk:' is not known; there are rung:, level:, question:, dtype:, variant:; did you mean 'rung'?"),
        ("rung:operatio", "there is no rung 'operatio'; did you mean 'operation'?"),
        ("level:MUSTARD", "there is no level 'MUSTARD'; did you mean 'MUST'?"),
        ("question:Q07", "there is no question 'Q07'; did you mean 'Q007'?"),
        ("dtype:float31", "there is no dtype 'float31'; did you mean 'float32'?"),
        ("variant:lama", "there is no variant 'lama'; did you mean 'llama'?"),
        ("!q007.sofmax", "no claim is called 'q007.sofmax'"),
        ("", "names nothing"),
        (" , ", "names nothing"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("option", ["--select", "--require"])
def test_an_expression_that_names_nothing(option, expression, message):
    result = conformance("run", "mine.py", option, expression)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"usage: {option} ")
    assert message in result.stderr


# -- --require --------------------------------------------------------------------------------------


def test_what_is_required_and_graded_changes_nothing():
    assert conformance("run", "mine.py", "--require", "q007.softmax,q008.rms-norm").exit_code == 0
    assert end(OUT)["required_not_graded"] == []


@pytest.mark.parametrize(
    ("args", "missing"),
    [
        (["--require", "q005.logits"], ["q005.logits"]),  # the file defines no model
        (["--require", "q007.softmax,q008.rms-norm", "--select", "q007.softmax"], ["q008.rms-norm"]),
        (["--require", "q007.softmax", "--require", "q008.layer-norm"], ["q008.layer-norm"]),
        (["--require", "variant:llama"], ["variant:llama"]),  # no claim is graded as a llama
    ],
)
def test_what_is_required_and_not_graded_does_not_conform(args, missing):
    result = conformance("run", "mine.py", *args, "-q")
    assert result.exit_code == 1
    assert f"required but not graded: {', '.join(missing)}" in flat(result.stdout)
    assert end(OUT)["required_not_graded"] == missing
    assert end(OUT)["counts"]["fail"] == 0


# -- --variant, --dtype, --seed -----------------------------------------------------------------------


def test_a_variant_that_is_asked_for_stands_in_for_none_that_is_declared():
    conformance("run", "mine.py", "--variant", "llama", "--select", FEW)
    assert {line["variant"] for line in verdicts(OUT)} == {"llama"}
    assert lines(OUT)[0]["variants"] == ["llama"]
    conformance("run", "mine.py", "--select", FEW)
    assert {line["variant"] for line in verdicts(OUT)} == {None}


def test_a_variant_that_is_asked_for_selects_among_those_declared(tmp_path):
    adapter(tmp_path, 'variant = ["gpt2", "llama"]\n' + GOOD_RMS_NORM)
    conformance("run", "mine.py", "--variant", "llama", "--select", "q008.rms-norm")
    assert {line["variant"] for line in verdicts(OUT)} == {"llama"}


def test_an_unknown_variant_on_the_command_line_is_its_fault_and_not_the_file_s():
    result = conformance("run", "mine.py", "--variant", "lama")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "usage: --variant is 'lama'; the pack knows minimal, gpt2, llama, vaswani; did you mean 'llama'?\n"
    )


def test_dtypes():
    assert conformance("run", "mine.py", "--select", FEW).exit_code == 0
    assert {line["dtype"] for line in verdicts(OUT)} == {"float32"}
    result = conformance("run", "mine.py", "--select", FEW, "--dtype", "float64", "--dtype", "float16")
    assert result.exit_code == 0
    assert {line["dtype"] for line in verdicts(OUT)} == {"float64", "float16"}
    assert conformance("run", "mine.py", "--dtype", "float31").exit_code == 2


def test_seeds():
    def seed(*args: object) -> int:
        assert conformance("run", "mine.py", "--select", FEW, *args).exit_code == 0
        return lines(OUT)[0]["seed"]

    def margins() -> list[float]:
        return [line["margin"] for line in verdicts(OUT)]

    assert seed() == 0
    first = margins()
    assert seed("--seed", "0") == 0
    assert margins() == first
    assert seed("--seed", "7") == 7
    assert margins() != first
    drawn = seed("--seed", "fresh")
    fresh = margins()
    assert drawn != seed("--seed", "fresh")
    assert seed("--seed", drawn) == drawn
    assert margins() == fresh


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--seed", "-1"], "a seed is not negative"),
        (["--seed", "x"], "'x' is neither a number nor 'fresh'"),
        (["--timeout", "0"], "0.0 is not in the range x>0"),
        (["--memory", "1"], "1 is not in the range x>=64"),
        (["--sleect", "x"], "No such option"),
        ([], "Missing argument 'TARGET...'"),
    ],
)
def test_values_that_are_none(args, message):
    result = conformance("run", *(["mine.py", *args] if args else []))
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


# -- --python, --timeout, --memory --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("python", "message"),
    [
        ("nowhere/python", "cannot be started: No such file or directory"),
        ("./nothing", "cannot run a submission: exited with status 0"),
    ],
)
def test_an_interpreter_that_is_none_is_not_the_target_s_fault(python, message):
    Path("nothing").write_text("#!/bin/sh\nexit 0\n")
    Path("nothing").chmod(0o755)
    result = conformance("run", "mine.py", "--python", python)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"engine: the interpreter {Path(python).absolute()} {message}\n  ")
    assert "check --python" in result.stderr


def test_an_interpreter_is_found_from_where_the_user_stands():
    Path("env").mkdir()
    Path("env/python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    Path("env/python").chmod(0o755)
    assert conformance("run", "mine.py", "--select", FEW, "--python", "env/python").exit_code == 0


@pytest.mark.parametrize(("given", "imports"), [(0.2, 60.0), (90.0, 90.0)])
def test_a_longer_timeout_is_of_the_import_too_and_a_shorter_one_is_not(given, imports):
    limits = limits_of(given, 512)
    assert (limits.timeout, limits.import_timeout, limits.memory_mb) == (given, imports, 512)


def test_timeout_is_of_one_call(tmp_path):
    slow = GOOD_SOFTMAX.replace("    e =", "    import time; time.sleep(0.4)\n    e =", 1)
    adapter(tmp_path, slow)
    assert conformance("run", "mine.py", "--select", "q007.softmax", "--timeout", "5").exit_code == 0
    assert conformance("run", "mine.py", "--select", "q007.softmax", "--timeout", "0.2").exit_code == 1
    assert {line["verdict"] for line in verdicts(OUT)} == {"timeout"}
    assert lines(OUT)[0]["isolation"].endswith("deadline 0.2 s")


def test_memory_is_of_the_process(tmp_path):
    adapter(tmp_path, GOOD_SOFTMAX.replace("    e =", "    much = np.ones(10**8)\n    e =", 1))
    assert conformance("run", "mine.py", "--select", "q007.softmax", "--memory", "400").exit_code == 1
    assert "out of memory (limit 400 MB)" in verdicts(OUT)[0]["summary"]["en"]


# -- --waive ----------------------------------------------------------------------------------------


def waivers(*entries: tuple[str, str]) -> str:
    """A waivers' file: claim and expiry of each."""
    rows = [f'  - {{claim: "{claim}", reason: known since May, expires: "{day}"}}' for claim, day in entries]
    Path("waivers.yaml").write_text("waivers:\n" + "\n".join(rows) + "\n")
    return "waivers.yaml"


def states() -> dict[str, str]:
    return {waiver["claim"]: waiver["state"] for waiver in end(OUT)["waivers"]}


def test_a_waived_failure_does_not_count_and_is_reported(tmp_path):
    adapter(tmp_path, WRONG_SOFTMAX + GOOD_RMS_NORM)
    args = ["run", "mine.py", "--select", FEW]
    assert conformance(*args).exit_code == 1
    result = conformance(*args, "--waive", waivers(("q007.softmax*", TOMORROW)))
    assert result.exit_code == 0
    assert end(OUT)["counts"]["waived"] > 0
    assert {line["verdict"] for line in verdicts(OUT, "q007.softmax")} == {"waived"}
    assert states() == {"q007.softmax*": "used"}
    assert f"q007.softmax*: known since May (until {TOMORROW}, in use)" in flat(result.stdout)


def test_an_expired_waiver_waives_nothing_and_is_reported(tmp_path):
    adapter(tmp_path, WRONG_SOFTMAX + GOOD_RMS_NORM)
    result = conformance("run", "mine.py", "--select", FEW, "--waive", waivers(("q007.softmax*", YESTERDAY)))
    assert result.exit_code == 1
    assert states() == {"q007.softmax*": "expired"}
    assert f"until {YESTERDAY}, expired" in flat(result.stdout)


def test_a_waiver_holds_on_its_last_day(tmp_path):
    adapter(tmp_path, WRONG_SOFTMAX + GOOD_RMS_NORM)
    today = dt.date.today().isoformat()
    file = waivers(("q007.softmax*", today))
    assert conformance("run", "mine.py", "--select", FEW, "--waive", file).exit_code == 0


def test_a_waiver_of_what_passes_is_reported_as_needless():
    file = waivers(("q007.softmax", TOMORROW), ("q005.logits", TOMORROW))
    result = conformance("run", "mine.py", "--select", FEW, "--waive", file)
    assert result.exit_code == 0
    assert states() == {"q007.softmax": "needless", "q005.logits": "unused"}
    assert "q007.softmax" in result.stdout


def test_a_waiver_does_not_make_a_run_conform_in_which_no_must_passed(tmp_path):
    adapter(tmp_path, WRONG_SOFTMAX)
    file = waivers(("*", TOMORROW))
    assert conformance("run", "mine.py", "--select", FEW, "--waive", file).exit_code == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        ("waivers: 3", "a list 'waivers:' is expected"),
        ("waiver: []", "unknown section 'waiver' (did you mean 'waivers'?)"),
        ("waivers:\n  - {claim: q007.softmax, expires: '2099-01-01'}", "'reason' is missing in waivers.0"),
        ("waivers:\n  - {claim: q007.softmax, reason: ' ', expires: '2099-01-01'}", "needs a reason"),
        ("waivers:\n  - {claim: q007.softmax, reason: because, expires: soon}", "'soon' is no day"),
        ("waivers:\n  - {claim: q007.softmax, reason: because}", "'expires' is missing in waivers.0"),
        ("waivers: [", "is not YAML"),
    ],
)
def test_a_waivers_file_that_is_none(text, message):
    if text is not None:
        Path("bad.yaml").write_text(text)
    result = conformance("run", "mine.py", "--waive", "bad.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: --waive bad.yaml:" in flat(result.stderr)
    assert message in flat(result.stderr)
