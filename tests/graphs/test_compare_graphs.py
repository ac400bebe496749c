"""`compare` with ONNX files: another file, and what is no file but is given its weights."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from conformance.cli import main
from conformance.locations import bundled
from graphs.handmade import Plan, build, draw, save

PLAN = Plan(cached=True)


def compared(a: Path | str, b: Path | str, *more: str) -> Result:
    words = ["compare", str(a), str(b), "--variant", "llama", "--select", "rung:model,rung:decode", *more]
    return CliRunner().invoke(main, words)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return save(build(PLAN), tmp_path / "a.onnx")


def test_a_file_and_an_implementation_that_is_given_its_weights(file: Path) -> None:
    reference = bundled("adapters") / "numpy_reference.py"
    for a, b in ((file, reference), (reference, file)):
        result = compared(a, b)
        assert result.exit_code == 0, result.output
        assert "A and B agree" in result.output


def test_the_tensor_at_which_a_wrong_file_parts(file: Path, tmp_path: Path) -> None:
    wrong = save(build(dataclasses.replace(PLAN, mistake="scale-by-width")), tmp_path / "b.onnx")
    result = compared(file, wrong)
    assert result.exit_code == 1, result.output
    assert "scores" in result.output


def test_other_weights_are_seen(file: Path, tmp_path: Path) -> None:
    other = save(build(PLAN, draw(PLAN, seed=1)), tmp_path / "b.onnx")
    assert compared(file, other).exit_code == 1


def test_files_of_two_sizes_cannot_be_compared(file: Path, tmp_path: Path) -> None:
    other = save(build(dataclasses.replace(PLAN, ff=PLAN.ff + 4)), tmp_path / "b.onnx")
    result = compared(file, other)
    assert result.exit_code == 3, result.output
    assert "they are models of two sizes" in result.output


def test_a_file_that_is_no_graph_is_said_with_its_side(file: Path, tmp_path: Path) -> None:
    broken = tmp_path / "b.onnx"
    broken.write_bytes(b"not a graph")
    result = compared(file, broken)
    assert result.exit_code == 3, result.output
    assert "B, " in result.output
