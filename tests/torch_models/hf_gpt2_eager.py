"""GPT2LMHeadModel of `transformers`, attention "eager"."""

from _huggingface import gpt2

framework = "torch"
dtype = ["float32", "float64", "bfloat16", "float16"]
variant = "gpt2"


def Model(config, params):
    return gpt2(config, params, "eager")
