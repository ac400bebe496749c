"""MistralForCausalLM of `transformers`, attention "sdpa"."""

from _huggingface import mistral

framework = "torch"
dtype = ["float32", "bfloat16", "float16"]  # its angles are float32 in every dtype
variant = {"base": "llama", "window": 3}


def Model(config, params):
    return mistral(config, params, "sdpa")
