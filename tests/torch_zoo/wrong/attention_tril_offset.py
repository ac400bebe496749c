"""tril(diagonal=1) lets every query read the next key."""

import torch
import torch.nn.functional as F

framework = "torch"
fully_masked = "zero"


def attention(q, k, v, mask=None, is_causal=False):
    tq, tk = q.shape[-2], k.shape[-2]
    if is_causal:
        causal = torch.ones(tq, tk).tril(diagonal=tk - tq + 1).bool()  # WRONG
        mask = causal if mask is None else causal & mask
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
