"""LlamaForCausalLM of `transformers`, attention "eager"."""

from _huggingface import llama

framework = "torch"
dtype = [
    "float32",
    "bfloat16",
    "float16",
]  # its norms and angles are float32 in every dtype, so float64 is not one
variant = "llama"


def Model(config, params):
    return llama(config, params, "eager")
