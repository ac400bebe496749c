"""A course's adapters file, graded as it is: right, wrong in classical ways, half written, and not written at all."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from conformance import cli

pytest.importorskip("torch")

FOLDER = Path(__file__).parent
SOLUTION = FOLDER / "solution"
FAULTS: Mapping[str, Mapping[str, Any]] = yaml.safe_load((FOLDER / "faults.yaml").read_text(encoding="utf-8"))
WRITTEN = (
    "run_multihead_self_attention",
    "run_multihead_self_attention_with_rope",
    "run_rmsnorm",
    "run_rope",
    "run_scaled_dot_product_attention",
    "run_softmax",
    "run_swiglu",
    "run_transformer_block",
    "run_transformer_lm",
)


def run(*args: object) -> Result:
    result = CliRunner().invoke(cli.main, ["run", *map(str, args)], prog_name="conformance")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def lines(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "results.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def verdicts(folder: Path, *of: str) -> list[dict[str, Any]]:
    found = [line for line in lines(folder) if line["kind"] == "verdict"]
    return [line for line in found if line["verdict"] in of] if of else found


def copied(folder: Path) -> Path:
    """A copy of the solution, to be changed."""
    shutil.copytree(SOLUTION, folder / "course", ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "course"


def template(names: tuple[str, ...] = WRITTEN) -> str:
    """What the course hands out, in form: every function raises NotImplementedError."""
    head = "from __future__ import annotations\nfrom jaxtyping import Float, Int\nfrom torch import Tensor\n"
    signatures = {
        "run_softmax": 'in_features: Float[Tensor, " ..."], dim: int',
        "run_rmsnorm": "d_model, eps, weights, in_features",
    }
    return head + "".join(
        f'\n\ndef {name}({signatures.get(name, "**arguments")}):\n    """What it is to do."""\n'
        "    raise NotImplementedError\n"
        for name in names
    )


def test_the_solution_conforms(tmp_path: Path) -> None:
    result = run("cs336", SOLUTION / "tests" / "adapters.py", "-o", tmp_path)
    assert result.exit_code == 0, result.output
    assert not verdicts(tmp_path, "fail", "error", "timeout")
    passed = verdicts(tmp_path, "pass")
    # Each of the functions has been asked, in the variants that it is of.
    with_rope = {line["claim"] for line in passed if line["variant"] == "cs336"}
    without = {line["claim"] for line in passed if line["variant"] == "cs336 without RoPE"}
    assert {
        "q007.softmax", "q008.rms-norm", "q005.rope", "q006.attention", "q008.swiglu", "q005.layer", "q005.logits",
    } <= with_rope  # fmt: skip
    assert any(line["rung"] == "layer" for line in passed if line["variant"] == "cs336 without RoPE")
    assert "q005.logits" not in without


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught_named_and_placed_in_the_students_file(name: str, tmp_path: Path) -> None:
    fault, course = FAULTS[name], copied(tmp_path)
    model = course / "cs336_basics" / "model.py"
    text = model.read_text(encoding="utf-8")
    assert text.count(fault["old"]) == 1
    model.write_text(text.replace(fault["old"], fault["new"]), encoding="utf-8")
    (line,) = (i for i, t in enumerate(model.read_text().split("\n"), 1) if fault["new"] == t.strip())

    out = tmp_path / "out"
    result = run("cs336", course / "tests" / "adapters.py", "-o", out, "--select", ",".join(fault["claims"]))

    assert result.exit_code == 1, result.output
    broken = verdicts(out, "fail", "error")
    assert set(fault["claims"]) == {verdict["claim"] for verdict in broken}
    named = Counter(d["mistake"] for verdict in broken for d in verdict["diagnosis"])
    assert fault["mistake"] in named, named
    places = Counter((v["where"]["file"], v["where"]["line"]) for v in broken if v.get("where"))
    assert {file for file, _ in places} <= {str(model)}
    if not fault.get("nearby"):
        assert places.most_common(1)[0][0] == (str(model), line)


def test_nothing_written_yet_is_nothing_gradable(tmp_path: Path) -> None:
    (tmp_path / "adapters.py").write_text(template(), encoding="utf-8")
    result = run("cs336", tmp_path / "adapters.py", "-o", tmp_path / "out")
    assert result.exit_code == 3
    assert "is not written yet" in result.stderr
    assert "each function that is written will be graded" in result.stderr
    assert {line["verdict"] for line in verdicts(tmp_path / "out")} == {"unsupported"}
    # What is not written asks for no variant of its own.
    assert lines(tmp_path / "out")[0]["variants"] == ["cs336"]


def test_what_is_written_is_graded(tmp_path: Path) -> None:
    text = template(tuple(name for name in WRITTEN if name not in ("run_softmax", "run_rmsnorm")))
    text += (
        "\n\ndef run_softmax(in_features, dim):\n    return in_features.softmax(dim)\n"
        "\n\ndef run_rmsnorm(d_model, eps, weights, in_features):\n"
        "    return in_features / in_features.pow(2).mean(-1, keepdim=True).sqrt() * weights\n"
    )
    path = tmp_path / "adapters.py"
    path.write_text(text, encoding="utf-8")
    result = run("cs336", path, "-o", tmp_path / "out", "--select", "rung:operation")
    assert result.exit_code == 1
    graded = {line["claim"] for line in verdicts(tmp_path / "out") if line["verdict"] != "unsupported"}
    assert {"q007.softmax", "q008.rms-norm"} <= graded
    assert not any("rope" in claim or "swiglu" in claim or "attention" in claim for claim in graded)
    broken = verdicts(tmp_path / "out", "fail")
    assert all("rms" in line["claim"] or "norm" in line["claim"] for line in broken)
    assert {line["where"]["file"] for line in broken if line.get("where")} == {str(path)}
    assert "no-eps" in {d["mistake"] for line in broken for d in line["diagnosis"]}


def test_an_exception_is_placed_in_the_students_file(tmp_path: Path) -> None:
    course = copied(tmp_path)
    model = course / "cs336_basics" / "model.py"
    text = model.read_text(encoding="utf-8").replace("shifted = x - x.amax", "shifted = x - x.maximum_of")
    model.write_text(text, encoding="utf-8")
    result = run(
        "cs336", course / "tests" / "adapters.py", "-o", tmp_path / "out", "--select", "q007.softmax"
    )
    assert result.exit_code == 1
    for verdict in verdicts(tmp_path / "out"):
        assert verdict["verdict"] == "error"
        assert verdict["where"]["file"] == str(model)
        assert "maximum_of" in verdict["where"]["text"]


def test_other_arguments_than_the_courses_are_told_with_both_signatures(tmp_path: Path) -> None:
    path = tmp_path / "adapters.py"
    path.write_text("\n\ndef run_softmax(x, axis):\n    return x.softmax(axis)\n", encoding="utf-8")
    result = run("cs336", path, "-o", tmp_path / "out", "--select", "q007.softmax")
    assert result.exit_code == 1
    verdict = verdicts(tmp_path / "out", "error")[0]
    assert "run_softmax(in_features=…, dim=…); this one is run_softmax(x, axis)" in verdict["summary"]["en"]
    assert (verdict["where"]["file"], verdict["where"]["line"]) == (str(path), 3)


def test_what_a_function_does_to_its_argument_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "adapters.py"
    path.write_text(
        "def run_softmax(in_features, dim):\n"
        "    in_features -= in_features.amax(dim, keepdim=True)\n"
        "    return in_features.softmax(dim)\n",
        encoding="utf-8",
    )
    assert run("cs336", path, "-o", tmp_path / "out", "--select", "*input*,*untouched*").exit_code == 1
    assert verdicts(tmp_path / "out", "fail")


def test_parts_of_the_course_need_not_be_installed(tmp_path: Path) -> None:
    """`cs336_basics` asks for its own version, as the course's does, and modules are found from both folders."""
    course = copied(tmp_path)
    package = course / "cs336_basics" / "__init__.py"
    package.write_text('import importlib.metadata\n\nversion = importlib.metadata.version("cs336_basics")\n')
    (course / "tests" / "__init__.py").unlink()  # and the folder is no package
    out = tmp_path / "out"
    result = run("cs336", course / "tests" / "adapters.py", "-o", out, "--select", "q005.logits,q007.softmax")
    assert result.exit_code == 0, result.output


def test_a_library_that_is_missing_is_not_the_students_fault(tmp_path: Path) -> None:
    path = tmp_path / "adapters.py"
    path.write_text(
        "def run_softmax(in_features, dim):\n    import a_library_that_nobody_has\n", encoding="utf-8"
    )
    result = run("cs336", path, "-o", tmp_path / "out", "--select", "q007.softmax")
    assert result.exit_code == 3
    assert "needs the module a_library_that_nobody_has" in result.stderr
    assert "--python" in result.stderr


def test_the_file_has_to_be_named_and_there(tmp_path: Path) -> None:
    result = run("cs336")
    assert (result.exit_code, result.stderr) == (
        2,
        "usage: cs336 needs the file to grade: cs336 tests/adapters.py\n",
    )
    result = run("cs336", tmp_path / "adapters.py")
    assert result.exit_code == 3
    assert "does not exist" in result.stderr


def test_a_failure_is_reproduced_with_the_file_it_is_about(tmp_path: Path) -> None:
    path = tmp_path / "adapters.py"
    path.write_text("def run_softmax(in_features, dim):\n    return in_features.exp()\n", encoding="utf-8")
    run("cs336", path, "-o", tmp_path / "out", "--select", "q007.softmax")
    text = verdicts(tmp_path / "out", "fail")[0]["reproduce"]
    space: dict[str, Any] = {}
    exec(text, space)  # noqa: S102 -- what a person would paste
    assert space["output"].shape == space["data"]["x"].shape
