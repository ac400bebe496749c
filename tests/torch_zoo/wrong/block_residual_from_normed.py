"""The norm overwrites the name of the stream, and the residual is taken from the normed."""

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
        return F.layer_norm(
            x, (x.shape[-1],), self.p[f"{name}.weight"], self.p[f"{name}.bias"], self.c.norm_eps
        )

    def attn(self, x):
        q, k, v = (
            (x @ self.p[f"attention.w_{c}"]).unflatten(-1, (self.c.n_heads, -1)).transpose(1, 2) for c in "qkv"
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).flatten(-2) @ self.p["attention.w_o"]

    def forward(self, x):
        x = self.norm(x, "norm1")
        x = x + self.attn(x)  # WRONG
        h = self.norm(x, "norm2")
        return x + F.relu(h @ self.p["ffn.w_1"]) @ self.p["ffn.w_2"]


def block(x, params, config):
    return Block(params, config)(x)
