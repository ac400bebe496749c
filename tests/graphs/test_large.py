"""Graphs of very many weights: what is graded of them, what is not and why, and no false alarm.

The weights are few here; what counts as many is lowered instead, in the process that reads the file as well.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from conformance.cli.options import open_pack
from conformance.judging import compare
from conformance.judging.large_spreads import Excerpt
from conformance.plan import own
from conformance.plan.own import Own
from conformance.serving import is_large, serving
from conformance.targets import resolve_target
from graphs.handmade import Plan, build, save
from graphs.test_run import Graded, graded, of

FILLED = Plan(cached=True, positions_given=True, fill=float(np.finfo(np.float32).min), mask="additive")


@pytest.fixture(scope="module")
def pack() -> Any:
    return open_pack(None)


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand weights are very many."""
    from conformance.onnx import ahead as served

    ask = served.ask

    def asked(task: str, request: Any, **more: Any) -> Any:
        return ask(task, {**request, "many": 1000}, **more)

    monkeypatch.setattr(own, "MANY", 1000)
    monkeypatch.setattr(served, "ask", asked)


def by_claim(result: Graded) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for verdict in result.verdicts:
        found.setdefault(verdict["claim"], []).append(verdict)
    return found


@pytest.mark.parametrize(
    "plan",
    [
        FILLED,
        Plan(),
        Plan(
            position="learned", norm="layer_norm", ffn="gelu_tanh", bias=True, tied=True, gemm=True, rows=96
        ),
        Plan(dtype="float16"),
    ],
    ids=lambda p: f"{p.position}-{p.mask}-{p.dtype}",
)
def test_a_right_graph_conforms_and_says_what_was_left_out(
    plan: Plan, pack: Any, tmp_path: Path, many: None
) -> None:
    result = graded(pack, of(plan, tmp_path), tmp_path)
    assert result.broken == []
    assert result.end["faults"] == []
    assert "weights" in result.lines[0]["notes"][0]["en"]
    claims = by_claim(result)
    passed = {v["claim"] for v in result.verdicts if v["verdict"] == "pass"}
    assert {"q005.logits", "q005.long", "q005.causal", "q007.scores-in-every-layer", "q008.model-y"} <= passed
    assert {"q005.graph-optimised", "q005.graph-scale"} <= passed
    for left_out in (
        "q008.model-small",
        "q006.value-matrices-reach-logits",
        "q007.sums-to-one-in-every-layer",
    ):
        assert {v["verdict"] for v in claims[left_out]} == {"unsupported"}
        assert all("weights" in v["summary"]["en"] for v in claims[left_out])
    assert [v["case"] for v in claims["q008.model-y"] if v["verdict"] == "pass"] == ["model-plain"]


@pytest.mark.parametrize(
    ("mistake", "named", "operator"),
    [
        ("scale-by-model-width", "scale-by-model-width", "Mul"),
        ("mask-dropped-here", "no-mask", "Softmax"),
        ("heads-tiled", "gqa-tile", "Mul"),
        ("ffn-residual-from-x", "ffn-residual-from-x", "Add"),
    ],
)
def test_a_wrong_graph_is_named_with_its_node(
    mistake: str, named: str, operator: str, pack: Any, tmp_path: Path, many: None
) -> None:
    wrong = of(dataclasses.replace(FILLED, mistake=mistake), tmp_path)
    result = graded(pack, wrong, tmp_path, ("q005.logits,rung:graph,q006.*,q007.*,q008.*",))
    assert not result.summary.conforms
    assert result.end["faults"] == []
    found = {
        (d["mistake"], v["where"]["op_type"]) for v in result.broken for d in v["diagnosis"] if v["where"]
    }
    assert (named, operator) in found


@pytest.mark.parametrize("fill", [float(np.finfo(np.float32).min), -1e9, -np.inf])
@pytest.mark.parametrize("layer", [0, 1])
def test_a_right_fill_is_not_taken_for_the_fault(layer: int, fill: float, pack: Any, tmp_path: Path) -> None:
    """Whatever a mask is filled with: what is wrong stands in the layer that was spoilt, and is named."""
    plan = dataclasses.replace(FILLED, fill=fill, mistake="scale-by-model-width", where=layer)
    result = graded(pack, of(plan, tmp_path), tmp_path, ("q005.logits,q007.scores-in-every-layer",))
    stage = next(v for v in result.broken if v["claim"] == "q007.scores-in-every-layer")
    assert stage["evidence"]["tensor"] == f"layers.{layer}.scores"
    logits = [v for v in result.broken if v["claim"] == "q005.logits"]
    assert logits
    for verdict in logits:
        assert verdict["where"]["node"] == stage["where"]["node"]
        assert [d["mistake"] for d in verdict["diagnosis"]] == ["scale-by-model-width"]


def test_weights_beside_the_model_are_read_where_they_stand(tmp_path: Path) -> None:
    model = build(Plan(width=64, vocab=301))
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="model.bin", size_threshold=1024)
    inside = save(build(Plan(width=64, vocab=301)), tmp_path / "inside.onnx")
    with serving(resolve_target([str(path)])) as one, serving(resolve_target([str(inside)])) as other:
        assert one.graph is not None
        assert other.graph is not None
        assert not is_large(one.graph)
        assert one.graph.own.parameters.keys() == other.graph.own.parameters.keys()
        for name, array in one.graph.own.parameters.items():
            np.testing.assert_array_equal(array, other.graph.own.parameters[name])


def test_one_number_makes_another_digest() -> None:
    random = np.random.default_rng(5)
    array = random.standard_normal((300, 700)).astype(np.float32)
    changed = array.copy()
    changed[171, 333] = np.nextafter(changed[171, 333], np.float32(9))
    made = [Own({}, {"w": a}).digests["w"] for a in (array, array.copy(), changed, array.T, array[::-1])]
    assert made[0] == made[1]
    assert len(set(made)) == 4


def test_an_excerpt_computes_what_the_whole_does(pack: Any, tmp_path: Path, many: None) -> None:
    from conformance.plan.scenarios import Scenarios
    from conformance.plan.variants import resolve

    plan = Plan(vocab=5000)
    with serving(of(plan, tmp_path)) as served:
        assert served.graph is not None
        variant = resolve(pack, (served.graph.variant,), ()).variants[0]
        whole = Scenarios(pack, 0, served.graph.own).of(pack.cases["model-plain"], variant)
        assert whole is not None
        excerpt = Excerpt.of(whole)
        assert excerpt.columns is not None
        assert len(excerpt.columns) < 5000
        ours, theirs = (s.read(s.arithmetic)[0] for s in (excerpt.scenario, whole))
        for name, tensor in theirs.taps.items():
            np.testing.assert_allclose(
                ours.taps[name].array, excerpt.part(tensor).array, rtol=2e-4, atol=1e-5, err_msg=name
            )


@pytest.mark.parametrize("shape", [(1, 7, 9), (5, 4), (31,), (1, 1, 1)])
def test_a_tensor_is_compared_part_by_part_as_it_is_whole(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(8)
    values, expected = random.standard_normal((2, *shape))
    values.flat[0], expected.flat[-1] = np.nan, np.inf
    allowed = np.broadcast_to(random.random(shape[-1:]), shape)
    counts = random.random((*shape[:-1], 1)) < 0.7
    whole = [compare.errors(values, expected, allowed, which) for which in (None, counts)]
    monkeypatch.setattr(compare, "PART", 5)
    parts = [compare.errors(values, expected, allowed, which) for which in (None, counts)]
    np.testing.assert_array_equal(parts, whole)


def test_weights_that_were_let_go_are_read_again(tmp_path: Path) -> None:
    numbers = np.random.default_rng(2).standard_normal((300, 500)).astype("<f4")
    (tmp_path / "weights").write_bytes(b"1234" + numbers.tobytes())
    mapped = np.asarray(np.memmap(tmp_path / "weights", "<f4", "r", 4, numbers.shape))
    brought = Own({}, {"w": mapped.T, "other": np.ones(3)})
    brought.let_go()
    np.testing.assert_array_equal(brought.parameters["w"], numbers.T)
