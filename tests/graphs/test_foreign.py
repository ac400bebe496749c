"""Right graphs of models that the document has no word for: compared with themselves, and never at fault."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import helper, numpy_helper

from conformance.cli import main
from conformance.cli.options import open_pack
from conformance.plan.own import Own
from conformance.targets import resolve_target
from graphs.handmade import EVERYWHERE, Plan, build, save
from graphs.plans import FOREIGN, GPT2
from graphs.test_inspect import facts_of
from graphs.test_run import graded


@pytest.fixture(scope="module")
def pack() -> Any:
    return open_pack(None)


@pytest.mark.parametrize("name", FOREIGN)
def test_a_model_without_a_variant_is_compared_with_itself(name: str, pack: Any, tmp_path: Path) -> None:
    plan, why = FOREIGN[name]
    path = save(build(plan), tmp_path / "model.onnx")
    facts = facts_of(path)
    assert facts.variant is None
    assert why in facts.beyond
    result = graded(pack, resolve_target([str(path)]), tmp_path)
    assert [(v["claim"], v["case"], v["summary"]["en"]) for v in result.broken] == []
    verdicts = {v["claim"]: v for v in result.verdicts}
    assert verdicts["q005.logits"]["verdict"] == "unsupported"
    assert why in verdicts["q005.logits"]["summary"]["en"]
    assert verdicts["q005.causal"]["verdict"] == "pass"


@pytest.mark.parametrize("window", [1, 3, 4])
def test_padding_behind_a_window_is_hidden_or_not_told(window: int, tmp_path: Path) -> None:
    """Whether padding is hidden is asked of queries that see it: what a window hides anyway tells nothing."""
    plan = Plan(window=window)
    facts = facts_of(save(build(plan), tmp_path / "model.onnx"))
    assert {a.mask.padding for a in facts.attentions} == {None if window == 1 else True}
    ignored = dataclasses.replace(plan, mistake="padding-ignored")
    facts = facts_of(save(build(ignored), tmp_path / "wrong.onnx"))
    assert {a.mask.padding for a in facts.attentions} == {None if window == 1 else False}


def test_rows_of_positions_that_tokens_make_are_not_compared(pack: Any, tmp_path: Path) -> None:
    """Some models count positions by which tokens are not the one for padding."""
    model = build(Plan(**GPT2, padded=False))
    gather = next(n for n in model.graph.node if "position_embed" in n.input)
    at = list(model.graph.node).index(gather)
    made = [
        helper.make_node("Equal", ["input_ids", "input_ids"], ["real"], name="real"),
        helper.make_node("Cast", ["real"], ["ones"], to=7, name="ones"),
        helper.make_node("CumSum", ["ones", "axis_one"], ["rows"], name="rows", exclusive=1),
    ]
    model.graph.initializer.append(numpy_helper.from_array(np.array(1), "axis_one"))
    gather.input[1] = "rows"
    for node in reversed(made):
        model.graph.node.insert(at, node)
    path = save(model, tmp_path / "model.onnx")
    assert "the rows of its position table depend on which tokens there are" in facts_of(path).beyond
    result = graded(pack, resolve_target([str(path)]), tmp_path)
    assert [(v["claim"], v["case"], v["summary"]["en"]) for v in result.broken] == []


def test_positions_that_are_no_sinusoids_are_not_taken_for_them(tmp_path: Path) -> None:
    """A learned table that is multiplied by a number is added like sinusoids are."""
    path = save(build(Plan(**GPT2, position_factor=0.25)), tmp_path / "model.onnx")
    facts = facts_of(path)
    assert (facts.choices.get("position"), facts.variant) == (None, None)


def test_a_normed_embedding_is_no_residual_from_the_normed_stream(tmp_path: Path) -> None:
    """ModernBERT norms what it looks up, and its first attention reads that as it is."""
    facts = facts_of(save(build(Plan(where=0, mistake="residual-from-normed")), tmp_path / "model.onnx"))
    assert [block.source for layer in facts.layers for block in layer.blocks] == ["stream"] * 4
    assert facts.beyond == ["the embedding is normed"]
    for where in (1, EVERYWHERE):
        wrong = build(Plan(where=where, mistake="residual-from-normed"))
        facts = facts_of(save(wrong, tmp_path / "wrong.onnx"))
        assert facts.layers[1].blocks[0].source == "normed"


def test_a_graph_of_which_no_mask_could_be_read_is_compared_with_itself(pack: Any, tmp_path: Path) -> None:
    """It may be a model that adds biases to its scores: nothing says that the document's formula is meant."""
    model = build(Plan())
    (mask,) = (node for node in model.graph.node if node.op_type == "LessOrEqual")
    at, made = list(model.graph.node).index(mask) + 1, mask.output[0]
    mask.output[0] = "before"
    model.graph.initializer.append(numpy_helper.from_array(np.array(-1), "no_token"))
    steps = [  # as where padding is told by which token it is
        helper.make_node("Greater", ["input_ids", "no_token"], ["all"], name="all"),
        helper.make_node("ReduceMin", ["whole"], ["least"], keepdims=0, name="least"),
        helper.make_node("Cast", ["least"], ["every"], to=9, name="every"),
        helper.make_node("And", ["before", "every"], [made], name="both"),
    ]
    steps.insert(1, helper.make_node("Cast", ["all"], ["whole"], to=6, name="whole"))
    for node in reversed(steps):
        model.graph.node.insert(at, node)
    path = save(model, tmp_path / "model.onnx")
    assert {a.mask.kind for a in facts_of(path).attentions} == {"unknown"}
    result = graded(pack, resolve_target([str(path)]), tmp_path, ("q005.logits,q005.causal",))
    said = {v["claim"]: (v["verdict"], v["summary"]["en"]) for v in result.verdicts}
    assert said["q005.causal"][0] == "pass"
    assert said["q005.logits"][0] == "unsupported"
    assert "its mask" in said["q005.logits"][1]


def test_a_classifier_is_refused(tmp_path: Path) -> None:
    model = build(Plan())
    last = model.graph.node[-1]
    pooled = helper.make_node("ReduceMean", [last.input[0]], ["pooled"], axes=[1], keepdims=0, name="pool")
    del model.graph.node[-1]
    model.opset_import[0].version = 17
    model.graph.node.extend([pooled])
    short = helper.make_node("Slice", ["pooled", "zero", "two", "one"], ["logits"], name="classes")
    for name, number in (("zero", 0), ("one", 1), ("two", 2)):
        model.graph.initializer.append(numpy_helper.from_array(np.array([number]), name))
    model.graph.node.extend([short])
    del model.graph.output[0].type.tensor_type.shape.dim[1:]
    path = save(model, tmp_path / "model.onnx")
    result = CliRunner().invoke(main, ["run", str(path), "-o", str(tmp_path / "report")])
    assert result.exit_code == 3
    assert "2 numbers for a sequence, none for a token, as a classifier gives" in result.output


def test_weights_of_other_shapes_are_not_compared() -> None:
    """A graph whose norm is of another width than its stream is another model; it is no defect of the pack."""
    own = Own({}, {"norm1.weight": np.ones(12), "w_o": np.ones((4, 3))}, ("first",))
    same = own.fitting({"norm1.weight": (12,), "w_o": (4, 3), "w_q": (3, 4)})
    assert same is own
    less = own.fitting({"norm1.weight": (32,), "w_o": (4, 3)})
    assert set(less.parameters) == {"w_o"}
    assert less.missing == ("first", "its norm1.weight is [12], and its other sizes ask for [32]")


def test_queries_of_two_matrices_read_the_stream(tmp_path: Path) -> None:
    """The first may be narrow: the residual comes from what that one reads."""
    model = build(Plan())
    for node in [n for n in model.graph.node if n.name.startswith("q_")]:
        at = list(model.graph.node).index(node)
        entry, weight = node.input
        narrow, wide = f"{weight}_narrow", f"{weight}_wide"
        model.graph.node.insert(
            at, helper.make_node("MatMul", [entry, narrow], [narrow + "_out"], name=narrow)
        )
        node.input[0], node.input[1] = narrow + "_out", wide
        for name, shape in ((narrow, (24, 5)), (wide, (5, 24))):
            model.graph.initializer.append(numpy_helper.from_array(np.ones(shape, np.float32), name))
    facts = facts_of(save(model, tmp_path / "model.onnx"))
    assert {block.source for layer in facts.layers for block in layer.blocks} == {"stream"}
