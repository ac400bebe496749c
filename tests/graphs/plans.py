"""Right graphs by name: what `inspect` has to read and `run` has to pass."""

from __future__ import annotations

from graphs.handmade import Plan

GPT2 = {
    "norm": "layer_norm", "norm_as": "operator", "position": "learned", "ffn": "gelu_tanh", "bias": True,
    "kv_heads": 4, "tied": True,
}  # fmt: skip
MINIMAL = {"norm": "layer_norm", "position": "none", "ffn": "relu", "kv_heads": 4}

RIGHT: dict[str, tuple[Plan, object]] = {
    # What was built, and the variant that it is.
    "llama": (Plan(), "llama"),
    "llama-cached": (Plan(cached=True), "llama"),
    "llama-positions": (Plan(cached=True, positions_given=True), "llama"),
    "llama-no-mask-input": (Plan(padded=False, cached=True), "llama"),
    "fourth-root-finite-fill": (Plan(scale="root", mask="additive", fill=-3.4e38, opset=18), "llama"),
    "scale-at-run-time": (Plan(scale="runtime"), "llama"),
    "scale-on-queries": (Plan(scale="query", cached=True), "llama"),
    "scale-by-division": (Plan(scale="divide"), "llama"),
    "einsum": (Plan(attention="einsum"), "llama"),
    "fused-qkv": (Plan(fused_qkv=True, opset=18), "llama"),
    "interleaved": (Plan(rope_layout="interleaved", cached=True), {"base": "llama", "rope_layout": "interleaved"}),
    "other-base": (Plan(theta=500000.0), {"base": "llama", "rope_theta": 500000.0}),
    "skip-norms": (Plan(norm_as="skip"), "llama"),
    "operators-23": (Plan(attention="operator", norm_as="operator", rope_as="operator", opset=23), "llama"),
    "operators-24": (Plan(attention="operator", norm_as="operator", opset=24, cached=True), "llama"),
    "gpt2": (Plan(**GPT2), "gpt2"),
    "gpt2-gemm-cached": (Plan(**GPT2, gemm=True, cached=True), "gpt2"),
    "gpt2-fused-qkv": (Plan(**GPT2, fused_qkv=True), "gpt2"),
    "gpt2-skip-norms": (Plan(**{**GPT2, "norm_as": "skip"}, cached=True), "gpt2"),
    "minimal": (Plan(**MINIMAL), "minimal"),
    "gelu": (Plan(**{**MINIMAL, "ffn": "gelu"}), {"base": "minimal", "ffn": "gelu"}),
    "post-norm": (
        Plan(**MINIMAL, placement="post"),
        {"base": "minimal", "norm_placement": "post", "final_norm": False},
    ),
    "multi-head-operator": (Plan(**MINIMAL, attention="multi_head", cached=True), "minimal"),
    "gate-and-up-in-one": (Plan(packed_gate="split", cached=True), "llama"),
    "gate-and-up-cut-apart": (Plan(packed_gate="slice"), "llama"),
    "up-before-gate": (Plan(packed_gate="turned"), "llama"),
    "part-of-a-head-turns": (Plan(rotary=4, cached=True), {"base": "llama", "rotary_fraction": 4 / 6}),
    "one-pair-turns": (Plan(rotary=2), {"base": "llama", "rotary_fraction": 2 / 6}),
    "part-of-a-head-turns-interleaved": (
        Plan(rotary=4, rope_layout="interleaved"),
        {"base": "llama", "rotary_fraction": 4 / 6, "rope_layout": "interleaved"},
    ),
    "embedding-times-root-of-width": (
        Plan(embed_factor=24**0.5), {"base": "llama", "embed_scale": "sqrt(D)"},
    ),
    "rows-before-position-0": (Plan(**GPT2, rows_before=2, cached=True), "gpt2"),
    "last-position-of-the-stream": (Plan(last="hidden"), "llama"),
    "last-position-of-the-logits": (Plan(last="logits", cached=True), "llama"),
    "sinusoidal": (
        Plan(**{**MINIMAL, "position": "sinusoidal"}), {"base": "minimal", "position": "sinusoidal"},
    ),
    "gains-behind-the-norms": (Plan(**{**GPT2, "norm_as": "operator"}, bare_norms=True), "gpt2"),
    "means-worked-out-twice": (Plan(**{**GPT2, "norm_as": "spelled"}, mean_twice=True), "gpt2"),
    "normed-heads": (Plan(qk_norm="before", cached=True), {"base": "llama", "qk_norm": "head"}),
    "float16": (Plan(dtype="float16", norm_as="simplified"), "llama"),
}  # fmt: skip


FOREIGN: dict[str, tuple[Plan, str]] = {
    # Right graphs of models that no variant is, and what the report says of them.
    "window": (Plan(window=4), "attention sees a window"),
    "window-cached": (Plan(window=4, cached=True), "attention sees a window"),
    # Qwen3 norms before it turns, Hunyuan after; nothing in a lone file tells which was meant.
    "normed-after-turning": (Plan(qk_norm="after"), "queries and keys are normed after RoPE"),
    "normed-after-turning-cached": (
        Plan(qk_norm="after", cached=True, positions_given=True), "queries and keys are normed after RoPE"),
    "residual-times-weights": (Plan(residual_weights=True), "the residual is multiplied by weights"),
    "slowed-for-long-texts": (
        Plan(theta=1e6, slowed=16), "RoPE: frequencies are not powers of one base",
    ),
    "biases-by-distance": (Plan(**MINIMAL, distance_bias=True), "scores get biases beside the mask"),
    "embedding-times-three": (Plan(embed_factor=3), "the embedding is multiplied by 3"),
}  # fmt: skip


FUSED: dict[str, Plan] = {
    # Attentions that are one operator; each is right.
    "standard-flat": Plan(attention="operator", flat=True, opset=23),
    "standard-with-its-past": Plan(attention="operator", inside=True, opset=23, cached=True),
    "standard-flat-with-its-past": Plan(attention="operator", inside=True, flat=True, opset=24, cached=True),
    "standard-causal": Plan(attention="operator", triangle=True, padded=False, opset=23),
    "standard-causal-with-its-past": Plan(
        attention="operator", inside=True, triangle=True, padded=False, opset=24, cached=True
    ),
    "standard-told-lengths": Plan(attention="operator", triangle=True, nonpad=True, opset=24),
    "standard-all-operators": Plan(
        attention="operator", inside=True, opset=24, cached=True, norm_as="operator", rope_as="operator"
    ),
    "multi-head-bias": Plan(**MINIMAL, attention="multi_head", inside=True, cached=True),
    "multi-head-unidirectional": Plan(**MINIMAL, attention="multi_head", triangle=True),
    "multi-head-unidirectional-with-its-past": Plan(
        **MINIMAL, attention="multi_head", triangle=True, inside=True, cached=True
    ),
    "multi-head-for-shared-keys": Plan(attention="multi_head", cached=True),
    "grouped-query": Plan(attention="grouped_query", cached=True, padded=False, inside=True, width=8),
    "grouped-query-told-lengths": Plan(attention="grouped_query", cached=True, inside=True, width=8),
    "grouped-query-packed": Plan(
        attention="grouped_query", cached=True, padded=False, inside=True, packed_qkv=True, width=8
    ),
    "grouped-query-rotary": Plan(
        attention="grouped_query", cached=True, padded=False, inside=True, rope_as="inside", width=16
    ),
    "grouped-query-rotary-packed-interleaved": Plan(
        attention="grouped_query", cached=True, padded=False, inside=True, rope_as="inside", packed_qkv=True,
        fused_qkv=True, rope_layout="interleaved", width=16,
    ),
    "grouped-query-without-caches": Plan(attention="grouped_query", padded=False, width=8),
    "packed": Plan(**MINIMAL, attention="packed"),
    "packed-with-biases": Plan(**GPT2, attention="packed", padded=False),
    "packed-with-its-past": Plan(**GPT2, attention="packed", cached=True, inside=True),
}  # fmt: skip
"""Right graphs whose attentions are operators of `ai.onnx` and `com.microsoft`."""
