"""A file that is one operation is graded as that operation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from conformance.cli.options import open_pack
from conformance.targets import resolve_target
from graphs.handmade import save
from graphs.test_run import Graded, graded

F, B = TensorProto.FLOAT, TensorProto.BOOL


@pytest.fixture(scope="module")
def pack() -> Any:
    return open_pack(None)


def one(kind: str, inputs: dict[str, tuple[int, int]], opset: int = 24, **attributes: Any) -> onnx.ModelProto:
    """A graph of one operator; `inputs` are names with dtype and rank, 0 for any."""
    values = [
        helper.make_tensor_value_info(name, dtype, [f"{name}{i}" for i in range(rank)] if rank else None)
        for name, (dtype, rank) in inputs.items()
    ]
    rank = next(iter(inputs.values()))[1]
    out = helper.make_tensor_value_info("y", F, [f"y{i}" for i in range(rank)] if rank else None)
    node = helper.make_node(kind, list(inputs), ["y"], name="it", **attributes)
    graph = helper.make_graph([node], "one", values, [out])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def grade(model: onnx.ModelProto, pack: Any, folder: Path) -> Graded:
    return graded(pack, resolve_target([str(save(model, folder / "one.onnx"))]), folder)


RIGHT = {
    "attention": one("Attention", {"Q": (F, 4), "K": (F, 4), "V": (F, 4), "M": (B, 4)}),
    "layer_norm": one("LayerNormalization", {"X": (F, 3), "W": (F, 1), "b": (F, 1)}, epsilon=1e-5),
    "rms_norm": one("RMSNormalization", {"X": (F, 3), "W": (F, 1)}, epsilon=1e-5),
    "softmax": one("Softmax", {"X": (F, 0)}, axis=-1),
    "rope": one(
        "RotaryEmbedding", {"X": (F, 4), "c": (F, 2), "s": (F, 2), "p": (TensorProto.INT64, 2)}, opset=23
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_an_operator_conforms(name: str, pack: Any, tmp_path: Path) -> None:
    result = grade(RIGHT[name], pack, tmp_path)
    assert [(v["claim"], v["case"], v["summary"]["en"]) for v in result.broken] == []
    passed = {v["claim"] for v in result.verdicts if v["verdict"] == "pass"}
    main = {"attention": "q006.attention", "softmax": "q007.softmax-edges", "rope": "q005.rope"}
    assert main.get(name, "q008." + name.replace("_", "-")) in passed
    assert result.summary.conforms


def test_another_scale_is_named(pack: Any, tmp_path: Path) -> None:
    model = one("Attention", {"Q": (F, 4), "K": (F, 4), "V": (F, 4), "M": (B, 4)}, scale=1.0)
    result = grade(model, pack, tmp_path)
    assert not result.summary.conforms
    assert "no-scale" in {d["mistake"] for v in result.broken for d in v["diagnosis"]}


def test_a_function_by_the_names_of_its_inputs(pack: Any, tmp_path: Path) -> None:
    values = [
        helper.make_tensor_value_info(n, F, [f"{n}{i}" for i in range(r)])
        for n, r in (("x", 3), ("weight", 1))
    ]
    out = helper.make_tensor_value_info("y", F, [None, None, None])
    nodes = [
        helper.make_node("Constant", [], ["two"], value_float=2.0),
        helper.make_node("Constant", [], ["eps"], value_float=1e-5),
        helper.make_node("Constant", [], ["last"], value_ints=[-1]),
        helper.make_node("Pow", ["x", "two"], ["square"]),
        helper.make_node("ReduceMean", ["square", "last"], ["mean"]),
        helper.make_node("Add", ["mean", "eps"], ["more"]),
        helper.make_node("Sqrt", ["more"], ["root"]),
        helper.make_node("Div", ["x", "root"], ["normed"]),
        helper.make_node("Mul", ["normed", "weight"], ["y"]),
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "rms", values, [out]),
        opset_imports=[helper.make_opsetid("", 20)],
        ir_version=10,
    )
    result = grade(model, pack, tmp_path)
    assert result.broken == []
    assert "q008.rms-norm" in {v["claim"] for v in result.verdicts if v["verdict"] == "pass"}
