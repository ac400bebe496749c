"""Llama after Hugging Face's code: rotate_half, SDPA with a boolean mask, the cache a growing tuple."""

import torch
from torch import nn

framework = "torch"
dtype = ["float32", "bfloat16", "float16"]
variant = "llama"


class LlamaRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(input_dtype)


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, base):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2, dtype=torch.int64).float() / dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, x, position_ids):
        freqs = position_ids[:, None, :, None].float() * self.inv_freq
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos().to(x.dtype), emb.sin().to(x.dtype)


class LlamaAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.q_proj = nn.Linear(c.d_model, c.n_heads * c.d_head, bias=False)
        self.k_proj = nn.Linear(c.d_model, c.n_kv_heads * c.d_head, bias=False)
        self.v_proj = nn.Linear(c.d_model, c.n_kv_heads * c.d_value, bias=False)
        self.o_proj = nn.Linear(c.n_heads * c.d_value, c.d_model, bias=False)

    def forward(self, hidden_states, cos, sin, mask, past):
        shape = (*hidden_states.shape[:-1], -1)
        query = self.q_proj(hidden_states).view(*shape, self.c.d_head).transpose(1, 2)
        key = self.k_proj(hidden_states).view(*shape, self.c.d_head).transpose(1, 2)
        value = self.v_proj(hidden_states).view(*shape, self.c.d_value).transpose(1, 2)
        query = (query * cos) + (rotate_half(query) * sin)
        key = (key * cos) + (rotate_half(key) * sin)
        if past is not None:
            key = torch.cat([past[0], key], dim=2)
            value = torch.cat([past[1], value], dim=2)
        out = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True)
        return self.o_proj(out.transpose(1, 2).flatten(2)), (key, value)


class LlamaMLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c.d_model, c.d_ff, bias=False)
        self.up_proj = nn.Linear(c.d_model, c.d_ff, bias=False)
        self.down_proj = nn.Linear(c.d_ff, c.d_model, bias=False)
        self.act_fn = nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class LlamaDecoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.self_attn, self.mlp = LlamaAttention(c), LlamaMLP(c)
        self.input_layernorm = LlamaRMSNorm(c.d_model, c.norm_eps)
        self.post_attention_layernorm = LlamaRMSNorm(c.d_model, c.norm_eps)

    def forward(self, hidden_states, *rest):
        residual = hidden_states
        hidden_states, present = self.self_attn(self.input_layernorm(hidden_states), *rest)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.mlp(self.post_attention_layernorm(hidden_states))
        return residual + hidden_states, present


NAMES = {
    "self_attn.q_proj": "attention.w_q",
    "self_attn.k_proj": "attention.w_k",
    "self_attn.v_proj": "attention.w_v",
    "self_attn.o_proj": "attention.w_o",
    "mlp.gate_proj": "ffn.w_gate",
    "mlp.up_proj": "ffn.w_up",
    "mlp.down_proj": "ffn.w_down",
}
NORMS = {"input_layernorm": "norm1", "post_attention_layernorm": "norm2"}


class Model(nn.Module):
    def __init__(self, config, params):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.layers = nn.ModuleList([LlamaDecoderLayer(config) for _ in range(config.n_layers)])
        self.norm = LlamaRMSNorm(config.d_model, config.norm_eps)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.to(params["embed"].dtype)
        self.rotary = RotaryEmbedding(config.d_head, config.rope_theta)
        weights = {
            "embed_tokens.weight": params["embed"],
            "norm.weight": params["final_norm.weight"],
            "lm_head.weight": params["lm_head"].T,
        }
        for i in range(config.n_layers):
            for mine, name in NAMES.items():
                weights[f"layers.{i}.{mine}.weight"] = params[f"layers.{i}.{name}"].T
            for mine, name in NORMS.items():
                weights[f"layers.{i}.{mine}.weight"] = params[f"layers.{i}.{name}.weight"]
        self.load_state_dict(weights, strict=True)
        self.eval()

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        past = 0 if cache is None else cache[0][0].shape[2]
        length = tokens.shape[1]
        mask = torch.ones(length, past + length, dtype=torch.bool).tril(past)
        if attention_mask is not None:
            mask = mask & attention_mask[:, None, None, :]
        if positions is None and attention_mask is not None:
            positions = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, past:]
        elif positions is None:
            positions = torch.arange(past, past + length)
        if positions.dim() == 1:
            positions = positions[None]
        hidden_states = self.embed_tokens(tokens)
        cos, sin = self.rotary(hidden_states, positions)
        presents = []
        for i, layer in enumerate(self.layers):
            hidden_states, present = layer(hidden_states, cos, sin, mask, cache[i] if cache else None)
            presents.append(present)
        return self.lm_head(self.norm(hidden_states)), tuple(presents)
