"""Position ids count from 0 in every call, also when there is a cache."""

import torch
import torch.nn.functional as F
from torch import nn

framework = "torch"
variant = "gpt2"


class Attention(nn.Module):
    def __init__(self, p, heads):
        super().__init__()
        self.p, self.heads = p, heads

    def forward(self, x, layer_past):
        p = self.p
        q, k, v = ((x @ p["w_" + c] + p["b_" + c]).unflatten(2, (self.heads, -1)).transpose(1, 2) for c in "qkv")
        if layer_past is not None:
            k, v = torch.cat((layer_past[0], k), dim=-2), torch.cat((layer_past[1], v), dim=-2)
        mask = torch.ones(q.size(2), k.size(2), dtype=torch.bool).tril(k.size(2) - q.size(2))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return y.transpose(1, 2).flatten(2) @ p["w_o"] + p["b_o"], (k, v)


class Block(nn.Module):
    def __init__(self, p, c):
        super().__init__()
        self.p, self.eps = p, c.norm_eps
        self.attn = Attention({k[10:]: v for k, v in p.items() if k.startswith("attention.")}, c.n_heads)

    def forward(self, x, past):
        p, width = self.p, x.shape[-1:]
        a, present = self.attn(F.layer_norm(x, width, p["norm1.weight"], p["norm1.bias"], self.eps), past)
        x = x + a
        h = F.layer_norm(x, width, p["norm2.weight"], p["norm2.bias"], self.eps) @ p["ffn.w_1"] + p["ffn.b_1"]
        return x + F.gelu(h, approximate="tanh") @ p["ffn.w_2"] + p["ffn.b_2"], present


class Model(nn.Module):
    def __init__(self, config, params):
        super().__init__()
        self.p, self.eps = params, config.norm_eps
        self.h = nn.ModuleList()
        for n in range(config.n_layers):
            at = f"layers.{n}."
            self.h.append(Block({k[len(at) :]: v for k, v in params.items() if k.startswith(at)}, config))

    def forward(self, tokens, cache=None):
        position_ids = torch.arange(tokens.shape[-1])  # WRONG
        x = F.embedding(tokens, self.p["embed"]) + F.embedding(position_ids, self.p["position_embed"])
        presents = []
        for n, block in enumerate(self.h):
            x, present = block(x, None if cache is None else cache[n])
            presents.append(present)
        x = F.layer_norm(x, x.shape[-1:], self.p["final_norm.weight"], self.p["final_norm.bias"], self.eps)
        return x @ self.p["embed"].T, presents
