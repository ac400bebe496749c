"""Norm after the residual, as in 2017, where this variant norms before."""

import torch
import torch.nn.functional as F
from torch import nn

framework = "torch"
variant = "minimal"


class TransformerBlock(nn.Module):
    def __init__(self, params, config):
        super().__init__()
        self.config = config
        self.params = nn.ParameterDict(
            {k.replace(".", "_"): nn.Parameter(v, requires_grad=False) for k, v in params.items()}
        )

    def attention(self, x):
        p = self.params
        q, k, v = (
            (x @ p["attention_w_" + c]).unflatten(-1, (self.config.n_heads, -1)).transpose(1, 2) for c in "qkv"
        )
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2) @ p["attention_w_o"]

    def norm(self, x, name):
        p = self.params
        return F.layer_norm(x, x.shape[-1:], p[name + "_weight"], p[name + "_bias"], self.config.norm_eps)

    def forward(self, x):
        x = self.norm(x + self.attention(x), "norm1")  # WRONG
        hidden = F.relu(x @ self.params["ffn_w_1"])
        return self.norm(x + hidden @ self.params["ffn_w_2"], "norm2")


def block(x, params, config):
    return TransformerBlock(params, config)(x)
