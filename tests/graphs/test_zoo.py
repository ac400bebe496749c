"""Exports of known models, by both of PyTorch's exporters and as onnxruntime optimises them: each right one passes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.cli.options import open_pack
from conformance.targets import Target, resolve_target
from graphs.exported import FF, HEAD, HEADS, LAYERS, VOCAB, WIDTH, Export, quiet
from graphs.test_inspect import facts_of
from graphs.test_run import Graded, graded

QWEN3 = {"base": "llama", "qk_norm": "head"}
LEGACY = {"opset": 18, "exporter": "legacy"}
ZOO: list[tuple[Export, Any]] = [
    # What is exported, and the variant that it is.
    (Export("llama", "sdpa", 20), "llama"),
    (Export("llama", "sdpa", 20, cached=True), "llama"),
    (Export("llama", "sdpa", 20, cached=True, dtype="float16"), "llama"),
    (Export("llama", "sdpa", 23, cached=True), "llama"),
    (Export("llama", "sdpa", 24), "llama"),
    (Export("llama", "sdpa", **LEGACY), "llama"),
    (Export("llama", "eager", cached=True, **LEGACY), "llama"),
    (Export("llama", "sdpa", 20, optimised="basic"), "llama"),
    (Export("llama", "sdpa", 20, cached=True, optimised="extended"), "llama"),
    (Export("llama", "eager", cached=True, **LEGACY, optimised="all"), "llama"),
    (Export("llama", "eager", cached=True, **LEGACY, optimised="fused"), "llama"),
    (Export("gpt2", "eager", 18, cached=True), "gpt2"),
    (Export("gpt2", "sdpa", 24), "gpt2"),
    (Export("gpt2", "eager", **LEGACY), "gpt2"),
    (Export("gpt2", "sdpa", cached=True, **LEGACY), "gpt2"),
    (Export("gpt2", "eager", dtype="float16", **LEGACY), "gpt2"),
    (Export("gpt2", "sdpa", 24, optimised="extended"), "gpt2"),
    (Export("gpt2", "sdpa", cached=True, **LEGACY, optimised="all"), "gpt2"),
    (Export("gpt2", "eager", **LEGACY, optimised="fused"), "gpt2"),
    (Export("gpt2", "eager", 18, cached=True, optimised="fused"), "gpt2"),
    (Export("qwen3", "sdpa", 20), QWEN3),
    (Export("qwen3", "eager", cached=True, **LEGACY), QWEN3),
    (Export("qwen3", "sdpa", 24, cached=True), QWEN3),
    (Export("qwen3", "eager", cached=True, **LEGACY, optimised="all"), QWEN3),
]
BERTS = [
    Export("bert", "eager", **LEGACY),
    Export("bert", "sdpa", 18),
    Export("bert", "eager", **LEGACY, optimised="extended"),
    Export("bert", "eager", **LEGACY, optimised="fused"),
]
Exported = Callable[[Export], Path]


@pytest.fixture(scope="module")
def pack() -> Any:
    return open_pack(None)


def broken(result: Graded) -> list[Any]:
    return [(v["claim"], v["case"], v["summary"]["en"]) for v in result.broken]


@pytest.mark.parametrize(("export", "variant"), ZOO, ids=lambda e: e.name if isinstance(e, Export) else "")
def test_an_export_is_read_in_full(export: Export, variant: Any, exported: Exported) -> None:
    facts = facts_of(exported(export))
    assert facts.variant == variant
    kv_heads = HEADS if export.model == "gpt2" else 2
    assert facts.sizes == {
        "n_layers": LAYERS, "d_model": WIDTH, "n_heads": HEADS, "n_kv_heads": kv_heads, "d_head": HEAD,
        "d_value": HEAD, "d_ff": FF, "vocab_size": VOCAB, "max_positions": 96 if export.model == "gpt2" else None,
    }  # fmt: skip
    assert (facts.misfits, facts.unread, facts.foreign) == ([], {}, [])
    assert len(facts.attentions) == LAYERS
    for attention in facts.attentions:
        assert attention.scale == pytest.approx(1 / math.sqrt(HEAD), rel=2e-3)
        assert attention.grouping == ("none" if export.model == "gpt2" else "repeat")
        assert attention.softmax_axis == "key"
        assert (attention.mask.kind, attention.mask.offset, attention.mask.padding) == ("causal", 0, True)
        assert attention.problems == []
        assert attention.k is not None
        assert (attention.k.joined_along == "key") is export.cached
    assert {b.source for layer in facts.layers for b in layer.blocks} == {"stream"}
    assert {b.norm.eps for layer in facts.layers for b in layer.blocks if b.norm is not None} == {1e-5}
    assert len(facts.caches) == (LAYERS if export.cached else 0)


@pytest.mark.parametrize(("export", "variant"), ZOO, ids=lambda e: e.name if isinstance(e, Export) else "")
def test_an_export_conforms(
    export: Export, variant: Any, exported: Exported, pack: Any, tmp_path: Path
) -> None:
    del variant
    result = graded(pack, resolve_target([str(exported(export))]), tmp_path)
    assert broken(result) == []
    assert result.summary.conforms
    passed = {v["claim"] for v in result.verdicts if v["verdict"] == "pass"}
    assert {
        "q005.logits", "q005.causal", "q005.graph-scale", "q005.graph-visibility", "q005.graph-lengths",
        "q005.graph-tapped", "q005.graph-optimised", "q008.model-u", "q008.model-small",
    } <= passed  # fmt: skip
    assert (
        {"q005.decode-chunks", "q005.decode-left-padding-positions", "q005.graph-cache"} <= passed
    ) is export.cached
    assert len(result.end["graded_statements"]) >= 37
    assert result.end["faults"] == []


@pytest.mark.parametrize("export", BERTS, ids=lambda e: e.name)
def test_an_encoder_is_compared_with_itself(
    export: Export, exported: Exported, pack: Any, tmp_path: Path
) -> None:
    """What no variant has (a normed embedding, a network before the logits) keeps a model from the program alone."""
    facts = facts_of(exported(export))
    assert facts.sizes["n_layers"] == LAYERS
    assert facts.sizes["max_positions"] == 96
    assert {b.after.kind for layer in facts.layers for b in layer.blocks if b.after is not None} == {
        "layer_norm"
    }
    assert {b.feed_forward for layer in facts.layers for b in layer.blocks} == {None, "gelu"}
    # No map says that it reads both ways: nobody expects a network like BERT's to be causal.
    result = graded(pack, resolve_target([str(exported(export))]), tmp_path)
    assert broken(result) == []
    verdicts = {v["claim"]: v for v in result.verdicts}
    assert verdicts["q005.logits"]["verdict"] == "unsupported"
    assert "cannot be compared with the document's model" in verdicts["q005.logits"]["summary"]["en"]
    passed = {v["claim"] for v in result.verdicts if v["verdict"] == "pass"}
    assert {
        "q005.batch",
        "q005.history",
        "q005.graph-scale",
        "q005.graph-heads",
        "q005.graph-visibility",
    } <= passed


# -- faults of exporters --------------------------------------------------------------------------


def test_tables_of_one_sequence_are_a_fault_with_its_node(
    exported: Exported, pack: Any, tmp_path: Path
) -> None:
    """At opset 23 the exporter gives RotaryEmbedding the tables of one sequence; onnxruntime repeats none."""
    target = resolve_target([str(exported(Export("llama", "sdpa", 23)))])
    result = graded(pack, target, tmp_path, ("q005.logits,q005.graph-lengths,q005.logits-one-token",))
    verdicts = {(v["claim"], v["case"]): v for v in result.verdicts}
    fault = verdicts["q005.graph-lengths", "model-plain"]
    assert (fault["verdict"], fault["where"]["op_type"]) == ("fail", "RotaryEmbedding")
    assert "its tables are of 1 sequences" in fault["summary"]["en"]
    error = verdicts["q005.logits", "model-plain"]
    assert (error["verdict"], error["where"]["op_type"]) == ("error", "RotaryEmbedding")
    assert error["summary"]["en"].startswith(
        f"onnxruntime stops at {error['where']['node']} (RotaryEmbedding): "
    )
    assert error["where"]["node"]
    assert {v["verdict"] for k, v in verdicts.items() if k[1] == "model-printed"} == {
        "pass"
    }  # of one sequence


def test_a_length_that_the_legacy_exporter_builds_in(exported: Exported, pack: Any, tmp_path: Path) -> None:
    path = exported(Export("encoder_layer", "sdpa", 18, exporter="legacy"))
    facts = facts_of(path)
    assert [port.shape for port in facts.inputs] == [["batch", "seq"]]
    assert {m.at.op_type for m in facts.misfits} == {"Reshape"}
    assert "everything fits at 5 tokens" in facts.misfits[0].message
    assert facts.variant == {"base": "minimal", "bias": "all"}  # read at the length that fits
    result = graded(
        pack, resolve_target([str(path)]), tmp_path, ("q005.logits,q005.graph-lengths,q005.graph-scale",)
    )
    verdicts = {v["claim"]: v for v in result.verdicts}
    assert verdicts["q005.graph-scale"]["verdict"] == "pass"
    for claim, verdict in (("q005.graph-lengths", "fail"), ("q005.logits", "error")):
        assert (verdicts[claim]["verdict"], verdicts[claim]["where"]["op_type"]) == (verdict, "Reshape")
        assert "self_attn/Reshape" in verdicts[claim]["where"]["node"]


def test_a_finite_fill_is_reported_and_no_fault(pack: Any, tmp_path: Path) -> None:
    """Below opset 23 the exporter fills with the lowest number: a row that sees nothing gives the mean of V."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")

    class Attention(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, q: Any, k: Any, v: Any, mask: Any) -> Any:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    path = tmp_path / "attention.onnx"
    shapes = [(2, 3, 4, 6), (2, 3, 5, 6), (2, 3, 5, 6)]
    axes = [{0: "b", 1: "h", 2: n, 3: "d"} for n in ("t", "s", "s")]
    with quiet():
        torch.onnx.export(
            Attention().eval(),
            (*(torch.randn(s) for s in shapes), torch.ones(2, 3, 4, 5, dtype=torch.bool)),
            str(path),
            dynamo=True,
            opset_version=20,
            verbose=False,
            input_names=["q", "k", "v", "mask"],
            output_names=["y"],
            dynamic_shapes=(*axes, {0: "b", 1: "h", 2: "t", 3: "s"}),
        )
    target: Target = resolve_target([str(path)])
    result = graded(pack, target, tmp_path)
    assert broken(result) == []
    said = {v["claim"]: v["summary"]["en"] for v in result.verdicts if v["verdict"] == "pass"}
    assert "q006.attention" in said
    assert any("mean" in text for text in said.values())
