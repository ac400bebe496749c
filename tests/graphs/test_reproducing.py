"""The snippet of each failure of an ONNX file runs alone, and prints what the verdict says."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto

from conformance.cli.options import open_pack
from conformance.targets import resolve_target
from graphs.handmade import Plan, save
from graphs.plans import MINIMAL
from graphs.test_operations import one
from graphs.test_run import Graded, graded, of

CACHED = Plan(cached=True)


@pytest.fixture(scope="module")
def pack() -> Any:
    return open_pack(None)


def printed(snippet: str, folder: Path) -> str:
    """What a snippet prints in an interpreter that knows nothing of this project."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", snippet],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=120,
    )
    assert done.returncode == 0, snippet + "\n" + done.stderr
    return done.stdout


def shown(result: Graded, folder: Path) -> set[str]:
    """Run every snippet; the claims whose number was among what its snippet printed."""
    found = set()
    for verdict in result.broken:
        assert verdict["reproduce"], verdict["claim"]
        output = printed(verdict["reproduce"], folder)
        if verdict["evidence"] is None:
            assert output.strip()
            found.add(verdict["claim"])
            continue
        numbers = [
            float(word) for word in output.replace("[", " ").replace("]", " ").split() if _number(word)
        ]
        got = float(verdict["evidence"]["got"])
        if any(abs(n - got) <= 1e-5 * max(1.0, abs(got)) for n in numbers):
            found.add(verdict["claim"])
    return found


def _number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


CASES = {
    # What is built, what is asked, and the claims whose numbers have to be printed.
    "logits, stages and nodes": (
        Plan(cached=True, mistake="scale-by-width"),
        ("q005.logits", "q005.logits-one-token", "q007.scores-in-every-layer", "q005.graph-scale", "q008.model-small"),
    ),
    "experiments": (Plan(cached=True, mistake="mask-late"), ("q005.causal", "q005.last-token-counts", "q005.graph-visibility")),
    "decoding": (Plan(cached=True, mistake="positions-reset"), ("q005.decode-chunks", "q005.decode-one-by-one")),
    "fused": (
        Plan(**MINIMAL, attention="multi_head", triangle=True, cached=True, padded=False),
        ("q005.decode-chunks", "q005.graph-visibility"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_snippet_prints_what_its_verdict_says(name: str, pack: Any, tmp_path: Path) -> None:
    plan, claims = CASES[name]
    result = graded(pack, of(plan, tmp_path), tmp_path, (",".join(claims),))
    broken = {v["claim"] for v in result.broken}
    assert broken, result.verdicts
    assert shown(result, tmp_path) == broken


def test_a_runtime_error_comes_again(pack: Any, tmp_path: Path) -> None:
    model_target = of(dataclasses.replace(CACHED, mistake="split-without-transpose"), tmp_path)
    result = graded(pack, model_target, tmp_path, ("q005.logits",))
    assert result.broken
    assert shown(result, tmp_path) == {"q005.logits"}


def test_a_snippet_of_an_operation(pack: Any, tmp_path: Path) -> None:
    kinds = {"Q": (TensorProto.FLOAT, 4), "K": (TensorProto.FLOAT, 4), "V": (TensorProto.FLOAT, 4)}
    model = one("Attention", {**kinds, "M": (TensorProto.BOOL, 4)}, scale=1.0)
    target = resolve_target([str(save(model, tmp_path / "one.onnx"))])
    result = graded(pack, target, tmp_path, ("q006.attention",))
    assert result.broken
    assert shown(result, tmp_path) == {"q006.attention"}
