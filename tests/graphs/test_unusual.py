"""Graphs with parts that are not read: one message for each, graded as far as it goes, never a false alarm."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from conformance.cli.options import open_pack
from conformance.onnx.describe import describe
from conformance.onnx.reading import Unreadable, read_model
from conformance.onnx.recipe import recipe
from conformance.onnx.structure import read_structure
from conformance.targets import resolve_target
from graphs.handmade import Plan, build, save
from graphs.plans import FUSED, RIGHT
from graphs.test_inspect import facts_of
from graphs.test_run import Graded, graded

PLAN = Plan(cached=True, vocab=32, width=8)
"""Widths that quantisers divide into blocks."""


@pytest.fixture(scope="module")
def pack() -> Any:
    return open_pack(None)


def value(name: str, kind: int = TensorProto.FLOAT, shape: list[int] | None = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def branch(name: str, source: str) -> Any:
    """A graph within that hands on a value from outside."""
    return helper.make_graph([helper.make_node("Identity", [source], [name])], name, [], [value(name)])


def with_true(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "true"))


def chosen(folder: Path) -> Path:
    """The logits come out of an If."""
    model = build(PLAN)
    last = model.graph.node[-1]
    model.graph.node.remove(last)
    with_true(model)
    branches = {f"{n}_branch": branch(n, last.input[0]) for n in ("then", "else")}
    model.graph.node.append(helper.make_node("If", ["true"], ["logits"], name="if", **branches))
    return save(model, folder / "if.onnx")


def masked_by_choice(folder: Path) -> Path:
    """The mask comes out of an If, so that no attention can be read."""
    model = build(PLAN)
    i, node = next((i, n) for i, n in enumerate(model.graph.node) if n.name.startswith("mask"))
    with_true(model)
    made = {}
    for name in ("then", "else"):
        inner = helper.make_node("LessOrEqual", list(node.input), [name])
        made[f"{name}_branch"] = helper.make_graph([inner], name, [], [value(name, TensorProto.BOOL)])
    model.graph.node.remove(node)
    model.graph.node.insert(i, helper.make_node("If", ["true"], list(node.output), name="if", **made))
    return save(model, folder / "if_mask.onnx")


def behind_the_layers(folder: Path, kind: str) -> Path:
    """The stream goes through a Loop or a Scan before the vocabulary projection."""
    model = build(PLAN)
    vocabulary = model.graph.node[-2]
    stream = vocabulary.input[0]
    with_true(model)
    model.graph.initializer.append(numpy_helper.from_array(np.array(2), "trips"))
    if kind == "Loop":
        body = helper.make_graph(
            [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Identity", ["c"], ["n"])],
            "body",
            [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("c")],
            [value("on", TensorProto.BOOL, []), value("n")],
        )
        node = helper.make_node("Loop", ["trips", "true", stream], ["looped"], body=body, name="loop")
    else:
        body = helper.make_graph(
            [helper.make_node("Identity", ["x"], ["y"])], "body", [value("x")], [value("y")]
        )
        node = helper.make_node(
            "Scan", [stream], ["looped"], body=body, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1],
            name="scan",
        )  # fmt: skip
    model.graph.node.insert(len(model.graph.node) - 2, node)
    vocabulary.input[0] = "looped"
    return save(model, folder / f"{kind}.onnx")


def stored_in_eight_bits(folder: Path) -> Path:
    """Weights as integers behind DequantizeLinear."""
    model = build(PLAN)
    graph = model.graph
    for weight in list(graph.initializer):
        array = numpy_helper.to_array(weight)
        if array.ndim == 2 and weight.name.startswith("layers"):
            scale = np.float32(np.abs(array).max() / 127)
            rounded = np.round(array / scale).astype(np.int8)
            name = weight.name
            graph.initializer.remove(weight)
            graph.initializer.append(numpy_helper.from_array(rounded, name + "_q"))
            graph.initializer.append(numpy_helper.from_array(scale, name + "_s"))
            node = helper.make_node("DequantizeLinear", [name + "_q", name + "_s"], [name], name="dq_" + name)
            graph.node.insert(0, node)
    return save(model, folder / "qdq.onnx")


def quantised_as_it_runs(folder: Path) -> Path:
    """Activations quantised by one scale, products of integers."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    plain, made = save(build(PLAN), folder / "plain.onnx"), folder / "dynamic.onnx"
    quantize_dynamic(str(plain), str(made), weight_type=QuantType.QInt8)
    return made


def in_blocks_of_four_bits(folder: Path) -> Path:
    """MatMulNBits in place of every product with a weight."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(build(PLAN), block_size=16, is_symmetric=True)
    quantizer.process()
    made = folder / "nbits.onnx"
    quantizer.model.save_model_to_file(str(made))
    return made


CASES: dict[str, tuple[Callable[[Path], Path], str, set[str]]] = {
    # How it is made, what is said of it, and what is graded all the same.
    "if": (chosen, "If (once) is not read", {"q005.causal", "q005.batch", "q005.graph-scale", "q005.decode-schedule"}),
    "if-mask": (masked_by_choice, "If (once) is not read", {"q005.causal", "q005.batch", "q005.decode-schedule"}),
    "loop": (lambda f: behind_the_layers(f, "Loop"), "Loop (once) is not read", {"q005.causal", "q005.graph-cache"}),
    "scan": (lambda f: behind_the_layers(f, "Scan"), "Scan (once) is not read", {"q005.causal", "q005.graph-cache"}),
    "weights": (
        stored_in_eight_bits, "its numbers are quantised (DequantizeLinear)",
        {"q005.causal", "q005.graph-scale", "q005.graph-residual", "q005.decode-schedule"},
    ),
    "dynamic": (
        quantised_as_it_runs, "its numbers are quantised (DequantizeLinear, DynamicQuantizeLinear, MatMulInteger)",
        {"q005.graph-scale", "q005.graph-visibility", "q005.twice"},
    ),
    "blocks": (
        in_blocks_of_four_bits, "its numbers are quantised (MatMulNBits)",
        {"q005.causal", "q005.graph-scale", "q005.graph-residual", "q005.decode-schedule"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_read_is_said_and_the_rest_is_graded(name: str, pack: Any, tmp_path: Path) -> None:
    make, message, graded_all_the_same = CASES[name]
    path = make(tmp_path)
    result: Graded = graded(pack, resolve_target([str(path)]), tmp_path)
    assert [(v["claim"], v["case"], v["summary"]["en"]) for v in result.broken] == []
    assert result.summary.conforms
    passed = {v["claim"] for v in result.verdicts if v["verdict"] == "pass"}
    assert graded_all_the_same <= passed
    (logits,) = {v["summary"]["en"] for v in result.verdicts if v["claim"] == "q005.logits"}
    assert logits.startswith("it cannot be compared with the document's model: ")
    assert message in logits
    assert result.end["faults"] == []


def test_dynamic_quantisation_is_not_held_to_be_independent_of_other_tokens(
    pack: Any, tmp_path: Path
) -> None:
    path = quantised_as_it_runs(tmp_path)
    result = graded(pack, resolve_target([str(path)]), tmp_path, ("q005.causal,q005.graph-optimised",))
    said = {v["claim"]: (v["verdict"], v["summary"]["en"]) for v in result.verdicts}
    assert said["q005.causal"] == (
        "unsupported",
        "its activations are quantised by one scale for all, so each number depends on all others",
    )
    assert said["q005.graph-optimised"][0] == "unsupported"


def test_quantised_weights_are_read_where_they_stand(tmp_path: Path) -> None:
    for make in (stored_in_eight_bits, in_blocks_of_four_bits):
        facts = facts_of(make(tmp_path))
        assert facts.variant == "llama"
        assert [a.grouping for a in facts.attentions] == ["repeat", "repeat"]


# -- edited at random -----------------------------------------------------------------------------


def edited(model: onnx.ModelProto, rng: random.Random) -> onnx.ModelProto:
    """The model with up to three random edits, most of which make it nonsense."""
    graph = model.graph
    for _ in range(rng.choice([1, 1, 2, 3])):
        node = rng.choice(graph.node)
        edit = rng.randrange(7)
        if edit == 0:
            graph.node.remove(node)
        elif edit == 1 and node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice([*rng.choice(graph.node).output, ""])
        elif edit == 2 and node.attribute:
            attribute = rng.choice(node.attribute)
            if attribute.type == AttributeProto.INT:
                attribute.i = rng.choice([0, -1, 7, 2**40, -(2**62)])
            elif attribute.type == AttributeProto.FLOAT:
                attribute.f = rng.choice([0.0, float("nan"), float("inf")])
            else:
                node.attribute.remove(attribute)
        elif edit == 3:
            node.op_type = rng.choice(graph.node).op_type
        elif edit == 4 and node.input:
            node.input.pop()
        elif edit == 5 and graph.initializer:
            weight = rng.choice(graph.initializer)
            if weight.dims:
                weight.dims[rng.randrange(len(weight.dims))] = rng.choice([0, 1, 3, 100])
        elif edit == 6 and graph.initializer:
            weight = rng.choice(graph.initializer)
            array = numpy_helper.to_array(weight) if weight.data_type == TensorProto.INT64 else None
            if array is not None and array.size:
                flat = array.copy().reshape(-1)
                flat[rng.randrange(flat.size)] = rng.choice([0, -1, -5, 9, 2**40])
                weight.CopyFrom(numpy_helper.from_array(flat.reshape(array.shape), weight.name))
    return model


def test_an_edited_graph_is_read_or_refused(tmp_path: Path) -> None:
    """Whatever is in a file: facts, or one sentence."""
    rng = random.Random(7)
    plans = [*(plan for plan, _ in RIGHT.values()), *FUSED.values()]
    refused: list[str] = []
    for i in range(120):
        path = save(edited(build(rng.choice(plans)), rng), tmp_path / "model.onnx")
        try:
            structure = read_structure(read_model(path))
            assert msgspec.json.encode(describe(structure, f"{i}"))
            recipe(structure, tmp_path, {})
        except Unreadable as error:
            refused.append(error.message)
    assert 0 < len(refused) < 120
    assert all(refused)
