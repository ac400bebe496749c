"""finfo.tiny, the smallest positive number, for finfo.min."""

import torch
from torch import nn

framework = "torch"


class ScaledDotProductAttention(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, q, k, v, visible):
        attn = torch.matmul(q / self.temperature, k.transpose(2, 3))
        attn = attn.masked_fill(visible == 0, torch.finfo(attn.dtype).tiny)  # WRONG
        attn = nn.functional.softmax(attn, dim=-1)
        return torch.matmul(attn, v), attn


def attention(q, k, v, mask=None, is_causal=False):
    groups = q.size(1) // k.size(1)
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    visible = torch.ones(1, 1, q.size(2), k.size(2))
    if is_causal:
        visible = visible.tril(k.size(2) - q.size(2))
    if mask is not None:
        visible = visible * mask
    return ScaledDotProductAttention(q.size(-1) ** 0.5)(q, k, v, visible)
