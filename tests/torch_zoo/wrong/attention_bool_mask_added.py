"""A boolean mask cast to float is added to the scores: SDPA hides only where the mask is a bool, or -inf."""

import torch
import torch.nn.functional as F

framework = "torch"


def attention(q, k, v, mask=None, is_causal=False):
    bias = None
    if is_causal:
        lower = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        mask = lower if mask is None else mask & lower
    if mask is not None:
        bias = mask.to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, enable_gqa=True)  # WRONG
