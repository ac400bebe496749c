"""F.dropout drops unless training=False is said: eval() does not reach it."""

import torch
import torch.nn.functional as F
from torch import nn

framework = "torch"
variant = "minimal"


class Block(nn.Module):
    def __init__(self, p, c):
        super().__init__()
        self.p, self.c = p, c

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.p[name + ".weight"], self.p[name + ".bias"], self.c.norm_eps)

    def forward(self, x):
        h = self.norm(x, "norm1")
        q, k, v = (
            (h @ self.p["attention.w_" + c]).unflatten(-1, (self.c.n_heads, -1)).transpose(1, 2) for c in "qkv"
        )
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + z.transpose(1, 2).flatten(-2) @ self.p["attention.w_o"]
        h = F.relu(self.norm(x, "norm2") @ self.p["ffn.w_1"])
        return x + F.dropout(h @ self.p["ffn.w_2"], 0.1)  # WRONG


class Model(nn.Module):
    def __init__(self, config, params):
        super().__init__()
        self.c, self.p = config, params
        self.layers = nn.ModuleList(
            Block({k[len(at) :]: v for k, v in params.items() if k.startswith(at)}, config)
            for at in (f"layers.{n}." for n in range(config.n_layers))
        )
        self.eval()

    def forward(self, tokens):
        x = self.p["embed"][tokens]
        for layer in self.layers:
            x = layer(x)
        x = F.layer_norm(x, x.shape[-1:], self.p["final_norm.weight"], self.p["final_norm.bias"], self.c.norm_eps)
        return x @ self.p["lm_head"]
