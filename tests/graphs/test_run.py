"""`run` passes right graphs and fails wrong ones, and names the mistake and the node."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from conformance.cli import main
from conformance.cli.options import open_pack
from conformance.plan.selection import parse_selection
from conformance.results.store import Writer
from conformance.results.summary import Summary
from conformance.runner import Events, Options, run
from conformance.targets import Target, resolve_target
from graphs.handmade import Plan, build, draw, save
from graphs.plans import GPT2, RIGHT

CACHED = Plan(cached=True)


@pytest.fixture(scope="module")
def pack() -> Any:
    return open_pack(None)


@dataclasses.dataclass(frozen=True)
class Graded:
    summary: Summary
    lines: list[Any]

    @property
    def broken(self) -> list[Any]:
        return [v for v in self.verdicts if v["verdict"] in ("fail", "error", "timeout")]

    @property
    def verdicts(self) -> list[Any]:
        return [line for line in self.lines if line["kind"] == "verdict"]

    @property
    def end(self) -> Any:
        return self.lines[-1]


def graded(pack: Any, target: Target, folder: Path, select: tuple[str, ...] = (), **options: Any) -> Graded:
    lines: list[Any] = []
    chosen = Options(select=parse_selection(select, pack), **options)
    with Writer(folder / "report") as writer:
        summary = run(pack, target, chosen, writer, Events(line=lines.append))
    return Graded(summary, lines)


def of(plan: Plan, folder: Path) -> Target:
    return resolve_target([str(save(build(plan), folder / "model.onnx"))])


def test_a_scale_that_the_weights_hold_is_no_fault_and_right_where_it_is_declared(
    pack: Any, tmp_path: Path
) -> None:
    params = draw(CACHED)
    width = CACHED.width**0.5
    layer = f"layers.{CACHED.where}.attention.w_q"
    model = build(
        dataclasses.replace(CACHED, mistake="scale-dropped"), {**params, layer: params[layer] / width}
    )
    words = [str(save(model, tmp_path / "model.onnx"))]
    undeclared = graded(pack, resolve_target(words), tmp_path)
    assert [(v["claim"], v["case"], v["summary"]["en"]) for v in undeclared.broken] == []
    assert "q005.logits" in {v["claim"] for v in undeclared.verdicts if v["verdict"] == "pass"}
    (told,) = (v for v in undeclared.verdicts if v["claim"] == "q005.graph-scale")
    assert (told["verdict"], "scale: folded" in told["summary"]["en"]) == ("unsupported", True)
    names = tmp_path / "map.yaml"
    names.write_text("scale: folded\n", encoding="utf-8")
    declared = graded(pack, resolve_target(words, names), tmp_path)
    assert [(v["claim"], v["case"], v["summary"]["en"]) for v in declared.broken] == []
    passed = {v["claim"] for v in declared.verdicts if v["verdict"] == "pass"}
    assert {"q005.logits", "q005.graph-scale", "q005.decode-chunks"} <= passed


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_graph_conforms(name: str, pack: Any, tmp_path: Path) -> None:
    plan, _ = RIGHT[name]
    result = graded(pack, of(plan, tmp_path), tmp_path)
    assert [(v["claim"], v["case"], v["summary"]["en"]) for v in result.broken] == []
    assert result.summary.conforms
    passed = {v["claim"] for v in result.verdicts if v["verdict"] == "pass"}
    assert {
        "q005.logits",
        "q005.causal",
        "q005.graph-scale",
        "q005.graph-optimised",
        "q005.graph-tapped",
    } <= (passed | ({"q005.graph-optimised"} if not plan.padded else set()))
    assert ("q005.decode-chunks" in passed) is plan.cached
    assert "q008.model-u" in passed
    assert result.end["faults"] == []


WRONG = [
    # mistake, what is named, the operator of the node
    ("softmax-over-query", "softmax-over-query", "Softmax", CACHED),
    ("softmax-over-head", "softmax-over-head", "Softmax", CACHED),
    ("scale-by-model-width", "scale-by-model-width", "Mul", CACHED),
    ("scale-by-width", "scale-by-head-width", "Mul", CACHED),
    ("scale-dropped", "no-scale", "Mul", CACHED),
    ("mask-dropped", "no-mask", "Where", CACHED),
    ("mask-late", "mask-sees-next", "Where", CACHED),
    ("mask-early", "mask-hides-self", "Where", CACHED),
    ("mask-top-left", "mask-top-left", "Where", CACHED),
    ("mask-dropped-here", "no-mask", "Softmax", CACHED),
    ("mask-after-softmax", "mask-after-softmax", "Softmax", CACHED),
    ("padding-ignored", "padding-ignored", "Where", CACHED),
    ("fill-small", "mask-fill-tiny", "Softmax", CACHED),
    ("heads-tiled", "gqa-tile", "Softmax", CACHED),
    ("split-without-transpose", "heads-split-without-transpose", "Softmax", CACHED),
    ("merge-without-transpose", "heads-merged-without-transpose", "MatMul", CACHED),
    ("value-from-keys", "value-from-key-projection", "MatMul", CACHED),
    ("rope-sign", "rope-sign-lost", "Softmax", CACHED),
    ("positions-reset", "position-reset-in-decode", "Concat", CACHED),
    ("past-ignored", "cache-forgotten", "Softmax", CACHED),
    ("past-behind", "cache-scrambled", "Softmax", CACHED),
    ("residual-from-normed", "residual-from-normed", "Add", CACHED),
    ("residual-missing", "residual-overwritten", "MatMul", CACHED),
    ("ffn-residual-from-x", "ffn-residual-from-x", "Add", CACHED),
    ("attention-dropped", "attention-missing", "Add", CACHED),
    ("ffn-dropped", "ffn-missing", "Add", CACHED),
    ("gate-unused", "up-unused", "Add", CACHED),
    ("sigmoid-gate", "sigmoid-for-silu", "Mul", CACHED),
    ("activation-dropped", "activation-missing", "Add", Plan(**GPT2)),
    ("scale-by-model-width", "scale-by-model-width", "Attention", Plan(attention="operator", opset=23)),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "named", "operator", "plan"), WRONG, ids=lambda p: str(p)[:30])
def test_a_wrong_graph_is_named(
    mistake: str, named: str, operator: str, plan: Plan, pack: Any, tmp_path: Path
) -> None:
    wrong = of(dataclasses.replace(plan, mistake=mistake), tmp_path)
    result = graded(pack, wrong, tmp_path)
    assert not result.summary.conforms
    found = [
        (d["mistake"], v["where"]) for v in result.broken for d in v["diagnosis"] if v["where"] is not None
    ]
    assert named in {name for name, _ in found}
    assert operator in {where["op_type"] for name, where in found if name == named}
    assert result.end["causes"][0]["mistakes"][0] == named or named in str(result.end["causes"])
    assert result.end["faults"] == []


def test_keys_of_another_layer_are_said_to_be(pack: Any, tmp_path: Path) -> None:
    wrong = of(dataclasses.replace(CACHED, mistake="keys-of-another-layer"), tmp_path)
    result = graded(pack, wrong, tmp_path, ("q005.graph-*",))
    (broken,) = result.broken
    assert broken["claim"] == "q005.graph-projections"
    assert broken["summary"]["en"] == "k is projected with the matrix of k of attention 0"
    assert broken["where"]["op_type"] == "MatMul"


def bad(path: Path, folder: Path, *more: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["run", str(path), "-o", str(folder / "report"), *more])
    return result.exit_code, result.output


def test_no_recognisable_ends_are_one_message(tmp_path: Path) -> None:
    model = build(Plan(padded=False))
    model.graph.output[0].name = "zz"
    for node in model.graph.node:
        for i, name in enumerate(node.output):
            node.output[i] = "zz" if name == "logits" else name
    inner = model.graph.node[5].output[0]  # of positions
    model.graph.output.append(helper.make_tensor_value_info(inner, TensorProto.INT64, None))
    status, said = bad(save(model, tmp_path / "model.onnx"), tmp_path)
    assert status == 3
    assert "several outputs could be the logits: zz, " in said
    assert "write `logits: NAME` into a file and pass it with --map" in said
    table = tmp_path / "map.yaml"
    table.write_text("logits: zz\n")
    status, said = bad(tmp_path / "model.onnx", tmp_path, "--map", str(table), "--select", "q005.logits")
    assert status == 0, said


def test_an_operator_that_the_runtime_lacks_is_named(tmp_path: Path) -> None:
    model = build(Plan())
    model.graph.node[-1].op_type, model.graph.node[-1].domain = "Frobnicate", "org.example"
    model.opset_import.add(domain="org.example", version=1)
    status, said = bad(save(model, tmp_path / "model.onnx"), tmp_path)
    assert status == 3
    assert "model.onnx: onnxruntime cannot load it" in said
    assert "Frobnicate" in said
    assert "onnx_model.py" not in said


def test_a_map_for_an_adapter_is_refused(tmp_path: Path) -> None:
    adapter, table = tmp_path / "a.py", tmp_path / "map.yaml"
    adapter.write_text("def softmax(x, axis): ...\n")
    table.write_text("tokens: x\n")
    status, said = bad(adapter, tmp_path, "--map", str(table))
    assert status == 2
    assert "and ONNX files; " in said


def test_an_endless_loop_is_stopped(pack: Any, tmp_path: Path) -> None:
    from conformance.session import Limits

    model = build(Plan(padded=False, layers=1))
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Identity", ["carried"], ["next"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("carried", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
        ],
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "true"))
    final = model.graph.node[-1]
    model.graph.node.append(helper.make_node("Loop", ["", "true", final.input[0]], ["logits"], body=body))
    model.graph.node.remove(final)
    save(model, tmp_path / "model.onnx")
    result = graded(
        pack,
        resolve_target([str(tmp_path / "model.onnx")]),
        tmp_path,
        ("q005.batch",),
        limits=Limits(timeout=2),
        variants=("llama",),
    )
    assert {v["verdict"] for v in result.verdicts} == {"timeout"}
