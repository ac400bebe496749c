"""GPTNeoXForCausalLM of `transformers`, attention "eager"."""

from _huggingface import gpt_neox

framework = "torch"
dtype = ["float32", "bfloat16", "float16"]  # its angles are float32 in every dtype
variant = {
    "base": "gpt2",
    "position": "rope",
    "rotary_fraction": 0.25,
    "ffn": "gelu",
    "block_form": "parallel",
    "tie_embeddings": False,
}


def Model(config, params):
    return gpt_neox(config, params, "eager")
