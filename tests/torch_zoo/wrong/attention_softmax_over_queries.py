"""The softmax runs over dim=-2, the queries."""

import torch
from torch import nn

framework = "torch"


class Attention(nn.Module):
    def __init__(self, groups):
        super().__init__()
        self.groups = groups
        self.softmax = nn.Softmax(dim=-2)

    def forward(self, q, k, v, visible):
        k = k.repeat_interleave(self.groups, 1)
        v = v.repeat_interleave(self.groups, 1)
        scores = q.matmul(k.mT).mul(q.size(-1) ** -0.5)
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
        weights = self.softmax(scores)  # WRONG
        return weights.matmul(v), weights


def attention(q, k, v, mask=None, is_causal=False):
    visible = torch.ones(q.size(2), k.size(2), dtype=torch.bool)
    if is_causal:
        visible = visible.tril(k.size(2) - q.size(2))
    if mask is not None:
        visible = visible & mask
    return Attention(q.size(1) // k.size(1))(q, k, v, visible)
