"""Scaled dot-product attention of the library: `is_causal` only where the scores are square."""

import torch
import torch.nn.functional as F

framework = "torch"
dtype = ["float32", "bfloat16", "float16"]
fully_masked = "zero"


def attention(q, k, v, mask=None, is_causal=False):
    tq, tk = q.size(-2), k.size(-2)
    if is_causal and (tq != tk or mask is not None):
        lower = torch.ones(tq, tk, dtype=torch.bool, device=q.device).tril(diagonal=tk - tq)
        mask = lower if mask is None else mask.logical_and(lower)
        is_causal = False
    groups = q.size(1) // k.size(1)
    return F.scaled_dot_product_attention(
        q,
        k.repeat_interleave(groups, dim=1),
        v.repeat_interleave(groups, dim=1),
        attn_mask=mask,
        is_causal=is_causal,
    )
