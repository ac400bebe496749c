"""GPT-2 in one file: one Linear for q, k and v, the causal mask a buffer of the block size, no cache."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.nn import functional as F

framework = "torch"
dtype = ["float32", "bfloat16"]
variant = "gpt2"


@dataclass
class GPTConfig:
    block_size: int
    vocab_size: int
    n_layer: int
    n_head: int
    n_embd: int
    n_inner: int
    eps: float


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        mask = torch.tril(torch.ones(config.block_size, config.block_size))
        self.register_buffer("bias", mask.view(1, 1, config.block_size, config.block_size), persistent=False)
        self.n_head = config.n_head

    def forward(self, x, padding):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        if padding is not None:
            att = att.masked_fill(~padding[:, None, None, :], torch.finfo(att.dtype).min)
        att = F.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, config.n_inner)
        self.gelu = nn.GELU(approximate="tanh")
        self.c_proj = nn.Linear(config.n_inner, config.n_embd)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return self.dropout(self.c_proj(self.gelu(self.c_fc(x))))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, eps=config.eps)
        self.attn = CausalSelfAttention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd, eps=config.eps)
        self.mlp = MLP(config)

    def forward(self, x, padding):
        x = x + self.attn(self.ln_1(x), padding)
        x = x + self.mlp(self.ln_2(x))
        return x


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(config.vocab_size, config.n_embd),
                wpe=nn.Embedding(config.block_size, config.n_embd),
                h=nn.ModuleList([Block(config) for _ in range(config.n_layer)]),
                ln_f=nn.LayerNorm(config.n_embd, eps=config.eps),
            )
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(self, idx, padding, pos):
        if pos is None:
            pos = torch.arange(idx.size(1))
            if padding is not None:
                pos = (padding.long().cumsum(1) - 1).clamp(min=0)
        x = self.transformer.wte(idx) + self.transformer.wpe(pos)
        for block in self.transformer.h:
            x = block(x, padding)
        return self.lm_head(self.transformer.ln_f(x))


# -- the adapter ---------------------------------------------------------------------------------------


def state(p, n_layers):
    yield "lm_head.weight", p["embed"]
    yield "transformer.wte.weight", p["embed"]
    yield "transformer.wpe.weight", p["position_embed"]
    yield "transformer.ln_f.weight", p["final_norm.weight"]
    yield "transformer.ln_f.bias", p["final_norm.bias"]
    for i in range(n_layers):
        ours, theirs = f"transformer.h.{i}.", f"layers.{i}."
        for mine, his in ("ln_1", "norm1"), ("ln_2", "norm2"):
            yield ours + mine + ".weight", p[theirs + his + ".weight"]
            yield ours + mine + ".bias", p[theirs + his + ".bias"]
        at = theirs + "attention."
        yield ours + "attn.c_attn.weight", torch.cat([p[at + "w_" + c] for c in "qkv"], 1).T
        yield ours + "attn.c_attn.bias", torch.cat([p[at + "b_" + c] for c in "qkv"])
        yield ours + "attn.c_proj.weight", p[at + "w_o"].T
        yield ours + "attn.c_proj.bias", p[at + "b_o"]
        for mine, n in ("c_fc", 1), ("c_proj", 2):
            yield f"{ours}mlp.{mine}.weight", p[f"{theirs}ffn.w_{n}"].T
            yield f"{ours}mlp.{mine}.bias", p[f"{theirs}ffn.b_{n}"]


class Model:
    def __init__(self, config, params):
        c = config
        sizes = (c.max_positions, c.vocab_size, c.n_layers, c.n_heads, c.d_model, c.d_ff, c.norm_eps)
        self.gpt = GPT(GPTConfig(*sizes)).to(params["embed"].dtype)
        self.gpt.load_state_dict(dict(state(params, c.n_layers)))
        self.gpt.eval()

    def forward(self, tokens, attention_mask=None, positions=None):
        return self.gpt(tokens, attention_mask, positions)
