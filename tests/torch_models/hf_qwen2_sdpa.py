"""Qwen2ForCausalLM of `transformers`, attention "sdpa"."""

from _huggingface import qwen2

framework = "torch"
dtype = [
    "float32",
    "bfloat16",
    "float16",
]  # its norms and angles are float32 in every dtype, so float64 is not one
variant = {"base": "llama", "bias": "qkv", "norm_eps": 1e-6, "rope_theta": 1e6}


def Model(config, params):
    return qwen2(config, params, "sdpa")
