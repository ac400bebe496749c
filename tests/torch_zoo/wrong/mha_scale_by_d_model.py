"""The scale handed to SDPA is that of the model's width."""

import torch
from torch import nn
from torch.nn import functional as F

framework = "torch"
variant = "minimal"


class SelfAttention(nn.Module):
    def __init__(self, p, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Parameter(torch.cat([p["w_q"], p["w_k"], p["w_v"]], 1).T, requires_grad=False)
        self.proj = nn.Parameter(p["w_o"].T, requires_grad=False)
        self.sizes = [p["w_" + c].shape[1] for c in "qkv"]

    def forward(self, x, mask):
        q, k, v = (
            t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for t in F.linear(x, self.qkv).split(self.sizes, dim=-1)
        )
        scale = x.shape[-1] ** -0.5
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)  # WRONG
        return F.linear(y.transpose(1, 2).flatten(2), self.proj)


def multi_head_attention(x, params, config, attention_mask=None):
    mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    if attention_mask is not None:
        mask = mask & attention_mask[:, None, None, :]
    return SelfAttention(params, config.n_heads)(x, mask)
