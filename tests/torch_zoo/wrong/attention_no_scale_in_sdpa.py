"""The queries are scaled beforehand and SDPA scales them again, by its default."""

import math

import torch
import torch.nn.functional as F

framework = "torch"
fully_masked = "zero"


def attention(q, k, v, mask=None, is_causal=False):
    tq, tk = q.size(2), k.size(2)
    if is_causal:
        causal = torch.ones(tq, tk, dtype=torch.bool).tril(tk - tq)
        mask = causal if mask is None else mask & causal
    q = q / math.sqrt(q.size(-1))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)  # WRONG
