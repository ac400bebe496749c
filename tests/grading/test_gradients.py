"""Where a target records gradients they are compared: a forward pass may be right, and its graph cut."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance.cli import main

SOURCE = """
import torch
framework = "torch"
dtype = ["float32", "float64", "bfloat16"]
class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, axis):
        return torch.softmax(x, axis)
    @staticmethod
    def backward(ctx, gradient):
        return gradient, None
def softmax(x, axis):
    return {softmax}
"""
CUT = {
    "the graph is cut": "torch.softmax(x, axis).detach() + 0 * x",
    "a backward of its own is wrong": "Wrong.apply(x, axis)",
}
WHOLE = {
    "torch": "torch.softmax(x, axis)",
    "the maximum is detached, which changes nothing": "torch.softmax(x - x.amax(axis, keepdim=True).detach(), axis)",
    "in place": "x.sub_(x.amax(axis, keepdim=True)).exp_().div_(x.sum(axis, keepdim=True))",
    "without a graph": "torch.softmax(x.detach(), axis)",
    "an array": "torch.softmax(x.detach(), axis).double().numpy()",
}


def verdicts(tmp_path: Path, softmax: str) -> dict[str, set[str]]:
    path = tmp_path / "adapter.py"
    path.write_text(SOURCE.replace("{softmax}", softmax), encoding="utf-8")
    done = CliRunner().invoke(
        main, ["run", str(path), "--select", "q007.jacobian", "-o", str(tmp_path), "-q"]
    )
    assert done.exit_code in (0, 1), done.output
    found: dict[str, set[str]] = {}
    for text in (tmp_path / "results.jsonl").read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        if line["kind"] == "verdict":
            found.setdefault(line["dtype"], set()).add(line["verdict"])
    return found


@pytest.mark.parametrize("name", CUT)
def test_a_wrong_gradient_is_red(name: str, tmp_path: Path) -> None:
    found = verdicts(tmp_path, CUT[name])
    assert found == {"float32": {"fail"}, "float64": {"pass"}, "bfloat16": {"pass"}}
    text = (tmp_path / "results.jsonl").read_text(encoding="utf-8")
    assert "autograd" in text


@pytest.mark.parametrize("name", WHOLE)
def test_a_right_one_or_none_is_not(name: str, tmp_path: Path) -> None:
    assert verdicts(tmp_path, WHOLE[name]) == {d: {"pass"} for d in ("float32", "float64", "bfloat16")}


def test_a_backward_that_ends_the_process_costs_no_other_claim_its_verdict(tmp_path: Path) -> None:
    """A gradient is an extra: however it ends, the operation itself is asked as before."""
    path = tmp_path / "adapter.py"
    source = SOURCE.replace("return gradient, None", "import os; os._exit(3)")
    path.write_text(source.replace("{softmax}", CUT["a backward of its own is wrong"]), encoding="utf-8")
    command = ["run", str(path), "--dtype", "float32", "-o", str(tmp_path), "-q"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    lines = map(json.loads, (tmp_path / "results.jsonl").read_text(encoding="utf-8").splitlines())
    verdicts = {line["verdict"] for line in lines if line["kind"] == "verdict"}
    assert verdicts == {"pass", "unsupported"}
