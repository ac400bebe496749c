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
    "float16": (Plan(dtype="float16", norm_as="simplified"), "llama"),
}  # fmt: skip
