"""Models of `transformers` behind the contract: their weights, and how they are called."""

import torch
from _modules import beneath, default_dtype, put, put_linear, put_norm
from transformers import (
    DynamicCache,
    GemmaConfig,
    GemmaForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)


class Causal:
    """Calls a causal language model; positions are told wherever there is padding, as `generate` does."""

    def __init__(self, module):
        self.module = module.eval()

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        past = DynamicCache() if cache is None else cache
        known, length = past.get_seq_length(), tokens.shape[1]
        if positions is not None:
            positions = positions.expand(tokens.shape)
            if attention_mask is None:
                # Without a mask a jump in positions begins another sequence.
                attention_mask = torch.ones(len(tokens), known + length, dtype=torch.bool)
        elif attention_mask is not None:
            positions = (attention_mask.long().cumsum(1) - 1).clamp(min=0)[:, -length:]
        result = self.module(
            input_ids=tokens,
            attention_mask=None if attention_mask is None else attention_mask.long(),
            position_ids=positions,
            past_key_values=past,
            use_cache=True,
        )
        return result.logits, past


def gpt2(config, params, attention):
    with default_dtype(params["embed"].dtype):
        model = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=config.vocab_size,
                n_positions=config.max_positions,
                n_embd=config.d_model,
                n_layer=config.n_layers,
                n_head=config.n_heads,
                n_inner=config.d_ff,
                layer_norm_epsilon=config.norm_eps,
                bos_token_id=0,
                eos_token_id=0,
                attn_implementation=attention,
            )
        )
    body = model.transformer
    put(body.wte.weight, params["embed"])
    put(body.wpe.weight, params["position_embed"])
    put_norm(body.ln_f, beneath(params, "final_norm."))
    for i, layer in enumerate(body.h):
        p = beneath(params, f"layers.{i}.")
        put_norm(layer.ln_1, beneath(p, "norm1."))
        put_norm(layer.ln_2, beneath(p, "norm2."))
        put(layer.attn.c_attn.weight, torch.cat([p["attention.w_" + s] for s in "qkv"], 1))
        put(layer.attn.c_attn.bias, torch.cat([p["attention.b_" + s] for s in "qkv"]))
        for module, letter, group in (
            (layer.attn.c_proj, "o", "attention"),
            (layer.mlp.c_fc, "1", "ffn"),
            (layer.mlp.c_proj, "2", "ffn"),
        ):
            put(module.weight, p[f"{group}.w_{letter}"])
            put(module.bias, p[f"{group}.b_{letter}"])
    return Causal(model)


def llama(config, params, attention, kind=(LlamaForCausalLM, LlamaConfig), above=0.0, **more):
    """`above`: what a gain is more than the weight that is kept of it."""
    model_class, config_class = kind
    with default_dtype(params["embed"].dtype):
        model = model_class(
            config_class(
                vocab_size=config.vocab_size,
                hidden_size=config.d_model,
                intermediate_size=config.d_ff,
                num_hidden_layers=config.n_layers,
                num_attention_heads=config.n_heads,
                num_key_value_heads=config.n_kv_heads,
                head_dim=config.d_head,
                max_position_embeddings=4096,
                rms_norm_eps=config.norm_eps,
                rope_theta=config.rope_theta,
                tie_word_embeddings=config.tie_embeddings,
                bos_token_id=0,
                eos_token_id=0,
                attn_implementation=attention,
                **more,
            )
        )
    put(model.model.embed_tokens.weight, params["embed"])
    put(model.model.norm.weight, params["final_norm.weight"] - above)
    if not config.tie_embeddings:
        put(model.lm_head.weight, params["lm_head"].T)
    for i, layer in enumerate(model.model.layers):
        p = beneath(params, f"layers.{i}.")
        put(layer.input_layernorm.weight, p["norm1.weight"] - above)
        put(layer.post_attention_layernorm.weight, p["norm2.weight"] - above)
        if config.qk_norm == "head":
            put(layer.self_attn.q_norm.weight, p["attention.q_norm.weight"])
            put(layer.self_attn.k_norm.weight, p["attention.k_norm.weight"])
        for letter in "qkvo":
            projection = getattr(layer.self_attn, f"{letter}_proj")
            put_linear(projection, p, f"attention.w_{letter}", f"attention.b_{letter}")
        for part in ("gate", "up", "down"):
            put(getattr(layer.mlp, f"{part}_proj").weight, p[f"ffn.w_{part}"].T)
    return Causal(model)


def qwen2(config, params, attention):
    return llama(config, params, attention, (Qwen2ForCausalLM, Qwen2Config))


def mistral(config, params, attention):
    window = None if config.window == "none" else config.window
    return llama(config, params, attention, (MistralForCausalLM, MistralConfig), sliding_window=window)


def qwen3(config, params, attention):
    return llama(config, params, attention, (Qwen3ForCausalLM, Qwen3Config))


def gemma(config, params, attention):
    return llama(config, params, attention, (GemmaForCausalLM, GemmaConfig), above=1.0)


def gpt_neox(config, params, attention):
    with default_dtype(params["embed"].dtype):
        model = GPTNeoXForCausalLM(
            GPTNeoXConfig(
                vocab_size=config.vocab_size,
                hidden_size=config.d_model,
                intermediate_size=config.d_ff,
                num_hidden_layers=config.n_layers,
                num_attention_heads=config.n_heads,
                max_position_embeddings=4096,
                layer_norm_eps=config.norm_eps,
                use_parallel_residual=config.block_form == "parallel",
                rope_parameters={
                    "rope_type": "default",
                    "rope_theta": config.rope_theta,
                    "partial_rotary_factor": config.rotary_fraction,
                },
                bos_token_id=0,
                eos_token_id=0,
                attn_implementation=attention,
            )
        )
    body = model.gpt_neox
    put(body.embed_in.weight, params["embed"])
    put(model.lm_head.weight, params["lm_head"].T)
    put_norm(body.final_layer_norm, beneath(params, "final_norm."))
    heads = (config.n_heads, config.d_head)
    for i, layer in enumerate(body.layers):
        p = beneath(params, f"layers.{i}.")
        put_norm(layer.input_layernorm, beneath(p, "norm1."))
        put_norm(layer.post_attention_layernorm, beneath(p, "norm2."))
        # Queries, keys and values of one head after another.
        weights = [p[f"attention.w_{s}"].T.unflatten(0, heads) for s in "qkv"]
        biases = [p[f"attention.b_{s}"].unflatten(0, heads) for s in "qkv"]
        put(layer.attention.query_key_value.weight, torch.cat(weights, 1).flatten(0, 1))
        put(layer.attention.query_key_value.bias, torch.cat(biases, 1).flatten())
        put_linear(layer.attention.dense, p, "attention.w_o", "attention.b_o")
        put_linear(layer.mlp.dense_h_to_4h, p, "ffn.w_1", "ffn.b_1")
        put_linear(layer.mlp.dense_4h_to_h, p, "ffn.w_2", "ffn.b_2")
    return Causal(model)
