"""What grading a graph does not pay for: libraries, readings and sessions that nothing is asked of."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance.cli.options import open_pack
from conformance.diagnosis.fit import UNREADABLE
from conformance.diagnosis.one_stage import stages_made
from conformance.judging.spreads import in_place
from conformance.language.arithmetic import Float64
from conformance.language.tensors import Named
from conformance.plan.scenario import Scenario, Tensors
from conformance.plan.scenarios import Scenarios
from conformance.session import Call, ModelCall, Outcome, Returned, Session
from graphs.handmade import Plan, build, save
from graphs.test_run import graded, of

UNSEEN = """
import sys
from pathlib import Path
from conformance.onnx import child
from conformance.onnx.later import SYMBOLIC, later

later(*SYMBOLIC)
child.TASKS["inspect"]({"path": sys.argv[1]})
print("onnx_ir" in sys.modules, "sympy.core" in sys.modules)
import onnx_ir
print((onnx_ir.SymbolicDim("length") + 1).evaluate({"length": 4}), "sympy.core" in sys.modules)
import sympy
from sympy.core.expr import Expr
print(sympy.Expr is Expr, isinstance(sympy.Symbol("x") + 1, Expr))
"""


@pytest.fixture(scope="module")
def pack() -> Any:
    return open_pack(None)


def test_sympy_is_imported_once_something_is_computed_with_symbols(tmp_path: Path) -> None:
    model = save(build(Plan()), tmp_path / "model.onnx")
    done = subprocess.run(
        [sys.executable, "-c", UNSEEN, str(model)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:3] == ["True False", "5 True", "True True"]


@pytest.mark.parametrize("cached", [False, True])
def test_a_prompt_in_calls_is_not_read_where_there_is_no_cache(
    cached: bool, pack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedules = set()
    read = Scenario.read

    def counted(self: Scenario, *given: Any, **named: Any) -> list[Tensors]:
        schedules.add(len(self.schedule))
        return read(self, *given, **named)

    monkeypatch.setattr(Scenario, "read", counted)
    result = graded(pack, of(Plan(cached=cached), tmp_path), tmp_path, ("q005.decode-*",))
    assert result.end["faults"] == []
    said = {v["summary"]["en"] for v in result.verdicts if v["verdict"] == "unsupported"}
    assert (max(schedules, default=0) > 1) == cached
    assert ("the graph takes no cache" in said) != cached
    assert ("pass" in {v["verdict"] for v in result.verdicts}) == cached


@pytest.mark.parametrize("claim", ["q005.graph-tapped", "q005.graph-optimised"])
def test_a_graph_that_gives_something_else_when_it_is_run_another_way_is_found(
    claim: str, pack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of these claims compares what is observed otherwise with a run of another kind, never with itself."""
    call = Session.call

    def other(self: Session, made: Call, dtype: str) -> Outcome:
        outcome = call(self, made, dtype)
        assert isinstance(made, ModelCall)
        if not isinstance(outcome, Returned) or made.config.keys().isdisjoint({"tapped", "optimisation"}):
            return outcome
        output = outcome.outputs[0]
        tensors = {name: array + array.dtype.type(0.01) for name, array in output.tensors.items()}
        return dataclasses.replace(outcome, outputs=(dataclasses.replace(output, tensors=tensors),))

    target = of(Plan(), tmp_path)
    assert graded(pack, target, tmp_path, (claim,)).summary.conforms
    monkeypatch.setattr(Session, "call", other)
    assert {v["claim"] for v in graded(pack, target, tmp_path, (claim,)).broken} == {claim}


@pytest.mark.parametrize("variant", ["llama", "gpt2", "vaswani"])
def test_a_stage_read_alone_is_what_a_whole_reading_makes_of_it(variant: str, pack: Any) -> None:
    """Also where the target does not show all that is before it, with any mistake, and in the fewer layers."""
    scenario = Scenarios(pack).of(pack.cases["model-plain"], pack.variants[variant])
    assert scenario is not None
    (expected,) = scenario.read(Float64())
    random = np.random.default_rng(4)
    shown = {
        name: Named(t.axes, t.array * (1 + 0.1 * random.standard_normal(t.array.shape)))
        for name, t in expected.taps.items()
        if random.random() < 0.8
    }
    layers = sorted({tap.rpartition(".")[0] for tap in shown})
    assert len(layers) > 2
    mistakes = random.choice(sorted(pack.program.mistakes), 12, replace=False)
    for program in (pack.program, *(pack.program.patched(str(m)) for m in mistakes)):
        whole: dict[str, Named[Any]] = {}
        try:
            scenario.read(Float64(), program, lambda _, made=whole: in_place(shown, made, lambda a: a))
        except UNREADABLE:
            continue
        for layer in layers:
            tap = next(tap for tap in shown if tap.rpartition(".")[0] == layer)
            (made,) = stages_made(scenario, program, [shown], tap)
            beside = [name for name in whole if name.rpartition(".")[0] == layer]
            assert beside or program is not pack.program  # a mistake may leave a layer out
            for name in beside:
                assert made[name].axes == whole[name].axes
                np.testing.assert_array_equal(made[name].array, whole[name].array)
