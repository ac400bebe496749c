"""SDPA's is_causal starts its triangle at the top left: with fewer queries than keys most of the past is hidden."""

import torch.nn.functional as F

framework = "torch"


def attention(q, k, v, mask=None, is_causal=False):
    if mask is not None and is_causal:
        raise NotImplementedError("one or the other")
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal)  # WRONG
