"""GemmaForCausalLM of `transformers`, attention "eager"."""

from _huggingface import gemma

framework = "torch"
dtype = ["float32", "bfloat16", "float16"]  # its angles are float32 in every dtype
variant = {
    "base": "llama",
    "ffn": "geglu_tanh",
    "norm_eps": 1e-6,
    "embed_scale": "sqrt(D)",
    "tie_embeddings": True,
    "wide_heads": True,
}


def Model(config, params):
    return gemma(config, params, "eager")
