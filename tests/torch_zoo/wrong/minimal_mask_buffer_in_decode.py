"""The buffer's first rows are taken whatever has come before: in decoding a query misses the past."""

import torch
import torch.nn.functional as F
from torch import nn

framework = "torch"
variant = "minimal"


class CausalAttention(nn.Module):
    def __init__(self, p, c):
        super().__init__()
        self.p, self.c = p, c
        self.register_buffer("tril", torch.tril(torch.ones(256, 256, dtype=torch.bool)))

    def forward(self, x, past):
        q, k, v = ((x @ self.p["w_" + c]).unflatten(-1, (self.c.n_heads, -1)).transpose(1, 2) for c in "qkv")
        if past is not None:
            k, v = (torch.cat(pair, dim=2) for pair in zip(past, (k, v)))
        T, S = q.shape[2], k.shape[2]
        wei = q @ k.transpose(-2, -1) * self.c.d_head**-0.5
        wei = wei.masked_fill(~self.tril[:T, :S], float("-inf"))  # WRONG
        wei = F.softmax(wei, dim=-1)
        return (wei @ v).transpose(1, 2).flatten(2) @ self.p["w_o"], (k, v)


class Block(nn.Module):
    def __init__(self, p, c):
        super().__init__()
        self.p, self.eps = p, c.norm_eps
        self.sa = CausalAttention({k[10:]: v for k, v in p.items() if k.startswith("attention.")}, c)

    def ln(self, x, n):
        return F.layer_norm(x, x.shape[-1:], self.p[f"norm{n}.weight"], self.p[f"norm{n}.bias"], self.eps)

    def forward(self, x, past):
        a, present = self.sa(self.ln(x, 1), past)
        x = x + a
        return x + F.relu(self.ln(x, 2) @ self.p["ffn.w_1"]) @ self.p["ffn.w_2"], present


class Model(nn.Module):
    def __init__(self, config, params):
        super().__init__()
        self.p, self.eps = params, config.norm_eps
        self.blocks = nn.ModuleList()
        for i in range(config.n_layers):
            at = f"layers.{i}."
            self.blocks.append(Block({k[len(at) :]: v for k, v in params.items() if k.startswith(at)}, config))

    def forward(self, tokens, cache=None):
        x, presents = self.p["embed"][tokens], []
        for i, block in enumerate(self.blocks):
            x, present = block(x, cache[i] if cache else None)
            presents.append(present)
        x = F.layer_norm(x, x.shape[-1:], self.p["final_norm.weight"], self.p["final_norm.bias"], self.eps)
        return x @ self.p["lm_head"], presents
