"""The program of the pack itself as a target: read, not run, and green in every dtype."""

import json

import pytest
from click.testing import CliRunner

from conformance.cli import main


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_the_program_conforms(dtype, tmp_path):
    words = ["run", "program", "--variant", "llama", "--dtype", dtype, "-o", str(tmp_path)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "57 of 57 statements, llama" in result.output
    lines = [
        json.loads(line) for line in (tmp_path / "results.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert lines[0]["target"] == "program"
    assert lines[0]["isolation"].startswith("none")
    assert not [line for line in lines if line["kind"] == "verdict" and line["verdict"] != "pass"]


def test_undeclared_it_is_every_variant_that_has_a_name(tmp_path):
    words = ["run", "program", "--select", "q005.logits", "-o", str(tmp_path)]
    assert CliRunner().invoke(main, words).exit_code == 0
    first = json.loads((tmp_path / "results.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert first["variants"] == ["minimal", "gpt2", "llama", "vaswani"]
