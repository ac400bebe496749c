"""Attentions that are one operator: right ones are read and pass, wrong ones are named with their node.

What an operator computes is decided by running it against the program; neither onnxruntime nor the reference
of ONNX is taken for granted.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

from conformance.cli.options import open_pack
from graphs.handmade import Plan
from graphs.plans import FUSED, GPT2, MINIMAL
from graphs.test_inspect import built
from graphs.test_run import graded, of

KINDS = {
    "operator": "ai.onnx.Attention",
    "multi_head": "com.microsoft.MultiHeadAttention",
    "grouped_query": "com.microsoft.GroupQueryAttention",
    "packed": "com.microsoft.Attention",
}
NODES = {**KINDS, "operator": "Attention"}
TOLD_LENGTHS = ("standard-told-lengths", "grouped-query-told-lengths")


@pytest.fixture(scope="module")
def pack() -> Any:
    return open_pack(None)


@pytest.mark.parametrize("name", FUSED)
def test_an_operator_is_read_in_full(name: str, tmp_path: Path) -> None:
    plan = FUSED[name]
    facts = built(plan, tmp_path)
    assert (facts.misfits, facts.unread, facts.beyond) == ([], {}, [])
    assert len(facts.attentions) == plan.layers
    for attention in facts.attentions:
        assert attention.kind == KINDS[plan.attention]
        assert (attention.heads, attention.kv_heads, attention.d_head) == (4, plan.kv_heads, plan.width)
        assert attention.grouping == ("none" if plan.kv_heads == 4 else "repeat")
        assert attention.scale == pytest.approx(1 / math.sqrt(plan.width), rel=1e-5)
        assert (attention.mask.kind, attention.mask.offset, attention.mask.past_ignored) == (
            "causal",
            0,
            False,
        )
        lengths = name in TOLD_LENGTHS
        assert attention.mask.padding is (None if lengths or not plan.padded else True)
        assert attention.problems == []
        starts = [o.first_column for o in (attention.q, attention.k, attention.v) if o is not None]
        own = plan.attention == "packed" or plan.fused_qkv
        wide, narrow = 4 * plan.width, plan.kv_heads * plan.width
        assert starts == ([0, wide, wide + narrow] if own else [0, 0, 0])
        for operand in (attention.k, attention.v):
            assert operand is not None
            assert (operand.past is not None) is plan.cached
            assert operand.joined_along == ("key" if plan.cached else None)
        rope = attention.q.rope if attention.q is not None else None
        assert (rope is not None) is (plan.position == "rope")
        if rope is not None:
            assert (rope["layout"], rope["theta"], rope["offset"]) == (plan.rope_layout, 10000.0, 0)


@pytest.mark.parametrize("name", FUSED)
def test_an_operator_conforms(name: str, pack: Any, tmp_path: Path) -> None:
    plan = FUSED[name]
    result = graded(pack, of(plan, tmp_path), tmp_path)
    assert [(v["claim"], v["case"], v["summary"]["en"]) for v in result.broken] == []
    assert result.summary.conforms
    passed = {v["claim"] for v in result.verdicts if v["verdict"] == "pass"}
    assert {
        "q005.logits", "q005.causal", "q005.graph-scale", "q005.graph-visibility", "q005.graph-heads",
        "q005.graph-tapped", "q005.graph-projections", "q008.model-u", "q008.model-small",
    } <= passed  # fmt: skip
    assert ("q005.decode-one-by-one" in passed) is plan.cached
    # The runtime's GroupQueryAttention takes several new tokens of one sequence alone.
    assert ("q005.decode-chunks" in passed) is (plan.cached and plan.attention != "grouped_query")
    assert ("q005.left-padding" in passed) is (
        plan.padded and name not in TOLD_LENGTHS and plan.position != "learned"
    )
    assert result.end["faults"] == []


LLAMA = {"padded": False, "cached": True}
WRONG = [
    # What is built, its mistake, and what is named at the operator.
    (FUSED["multi-head-bias"], "scale-by-model-width", "scale-by-model-width"),
    (FUSED["grouped-query"], "scale-by-width", "scale-by-head-width"),
    (FUSED["packed"], "scale-dropped", "no-scale"),
    (FUSED["standard-causal-with-its-past"], "mask-dropped-here", "no-mask"),
    (FUSED["standard-flat"], "mask-dropped-here", "no-mask"),
    (FUSED["multi-head-unidirectional-with-its-past"], "mask-dropped-here", "no-mask"),
    (FUSED["packed-with-its-past"], "mask-dropped-here", "no-mask"),
    (FUSED["multi-head-unidirectional"], "padding-ignored-here", "padding-ignored"),
    (FUSED["packed"], "padding-ignored-here", "padding-ignored"),
    (FUSED["standard-with-its-past"], "past-ignored", "cache-forgotten"),
    (FUSED["multi-head-unidirectional-with-its-past"], "past-ignored", "cache-forgotten"),
    (FUSED["grouped-query"], "past-ignored", "cache-forgotten"),
    (FUSED["standard-flat"], "heads-tiled", "gqa-tile"),
    (FUSED["multi-head-for-shared-keys"], "heads-tiled", "gqa-tile"),
    (FUSED["grouped-query"], "value-from-keys-here", "value-from-key-projection"),
    # Triangles of operators that do not know of the past begin at the top left.
    (Plan(**MINIMAL, attention="multi_head", triangle=True, cached=True, padded=False), "", "mask-top-left"),
    (Plan(**LLAMA, attention="operator", triangle=True, opset=23), "", "mask-top-left"),
]


@pytest.mark.parametrize(
    ("plan", "mistake", "named"), WRONG, ids=lambda p: p.attention if isinstance(p, Plan) else str(p)
)
def test_a_wrong_operator_is_named(plan: Plan, mistake: str, named: str, pack: Any, tmp_path: Path) -> None:
    wrong = of(dataclasses.replace(plan, mistake=mistake), tmp_path)
    result = graded(pack, wrong, tmp_path, ("q005.logits,q005.graph-*,q005.decode-chunks,q005.left-padding",))
    assert not result.summary.conforms
    found = {
        (d["mistake"], v["where"]["op_type"]) for v in result.broken for d in v["diagnosis"] if v["where"]
    }
    assert (named, NODES[plan.attention]) in found | {
        # The matrices, not the operator, are at fault.
        (name, NODES[plan.attention])
        for name, _ in found
        if name == "value-from-key-projection"
    }
    assert result.end["faults"] == []


def test_a_triangle_that_ignores_the_past_fails_where_it_is_run(pack: Any, tmp_path: Path) -> None:
    """onnxruntime's MultiHeadAttention then lets the last query see all, and the ones before it too little."""
    plan = Plan(**MINIMAL, attention="multi_head", triangle=True, cached=True, padded=False)
    result = graded(pack, of(plan, tmp_path), tmp_path, ("q005.decode-chunks,q005.decode-one-by-one",))
    verdicts = {v["claim"]: v["verdict"] for v in result.verdicts}
    assert verdicts == {"q005.decode-chunks": "fail", "q005.decode-one-by-one": "pass"}


def test_what_the_runtime_does_not_take_is_no_fault_of_the_graph(pack: Any, tmp_path: Path) -> None:
    result = graded(
        pack, of(FUSED["grouped-query-rotary"], tmp_path), tmp_path, ("q005.decode-chunks,q005.long",)
    )
    said = {v["claim"]: (v["verdict"], v["summary"]["en"]) for v in result.verdicts}
    assert said["q005.decode-chunks"][0] == "unsupported"
    assert (
        "GroupQueryAttention takes several tokens behind a past of one sequence only"
        in said["q005.decode-chunks"][1]
    )
    assert said["q005.long"][0] == "unsupported"
    assert "the graph's tables are of 64 positions" in said["q005.long"][1]


def test_padding_in_front_is_not_put_to_who_is_told_lengths(pack: Any, tmp_path: Path) -> None:
    result = graded(pack, of(FUSED["grouped-query-told-lengths"], tmp_path), tmp_path, ("q005.left-padding",))
    assert {v["verdict"] for v in result.verdicts} == {"unsupported"}
    assert "padding has to stand behind it" in result.verdicts[0]["summary"]["en"]


def test_a_packed_tensor_that_no_cpu_takes_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    plan = Plan(**MINIMAL, attention="multi_head", triangle=True, packed_qkv=True, padded=False)
    facts = built(plan, tmp_path)
    assert facts.misfits == []
    assert [(a.heads, a.d_head, a.q) for a in facts.attentions] == [(4, 6, None)] * 2


def test_biases_that_the_operator_adds_are_read(pack: Any, tmp_path: Path) -> None:
    plan = Plan(**GPT2, attention="packed", padded=False)
    result = graded(pack, of(plan, tmp_path), tmp_path, ("q005.logits",))
    assert {v["verdict"] for v in result.verdicts} == {"pass"}
    assert result.lines[0]["variants"] == ["gpt2"]
