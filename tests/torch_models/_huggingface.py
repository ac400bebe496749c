"""Models of `transformers` behind the contract: their weights, and how they are called."""

import torch
from _modules import beneath, default_dtype, put, put_linear, put_norm
from transformers import (
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
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


def llama(config, params, attention, kind=(LlamaForCausalLM, LlamaConfig)):
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
            )
        )
    put(model.model.embed_tokens.weight, params["embed"])
    put(model.model.norm.weight, params["final_norm.weight"])
    if not config.tie_embeddings:
        put(model.lm_head.weight, params["lm_head"].T)
    for i, layer in enumerate(model.model.layers):
        p = beneath(params, f"layers.{i}.")
        put(layer.input_layernorm.weight, p["norm1.weight"])
        put(layer.post_attention_layernorm.weight, p["norm2.weight"])
        for letter in "qkvo":
            projection = getattr(layer.self_attn, f"{letter}_proj")
            put_linear(projection, p, f"attention.w_{letter}", f"attention.b_{letter}")
        for part in ("gate", "up", "down"):
            put(getattr(layer.mlp, f"{part}_proj").weight, p[f"ffn.w_{part}"].T)
    return Causal(model)


def qwen2(config, params, attention):
    return llama(config, params, attention, (Qwen2ForCausalLM, Qwen2Config))
