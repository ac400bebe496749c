"""Qwen3ForCausalLM of `transformers`, attention "sdpa"."""

from _huggingface import qwen3

framework = "torch"
dtype = ["float32", "bfloat16", "float16"]  # its angles are float32 in every dtype
variant = {"base": "llama", "qk_norm": "head", "norm_eps": 1e-6, "wide_heads": True}


def Model(config, params):
    return qwen3(config, params, "sdpa")
