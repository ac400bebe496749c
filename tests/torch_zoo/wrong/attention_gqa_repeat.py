"""k.repeat lays the heads out as 0 1 0 1; grouped queries want repeat_interleave, 0 0 1 1."""

import torch
from torch.nn import functional as F

framework = "torch"
fully_masked = "zero"


def expand_heads(x, groups):
    return x.repeat(1, groups, 1, 1)  # WRONG


def attention(q, k, v, mask=None, is_causal=False):
    groups = q.shape[1] // k.shape[1]
    k = expand_heads(k, groups)
    v = expand_heads(v, groups)
    if is_causal:
        lower = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        mask = lower if mask is None else mask & lower
    return F.scaled_dot_product_attention(q, k, v, mask)
