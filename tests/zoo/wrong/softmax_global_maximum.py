"""Softmax subtracts one maximum of the whole tensor: `x.max()` was shorter and the demo agreed."""

import numpy as np

framework = "numpy"
fully_masked = "mean"


def _may_read(n_queries, n_keys, mask, is_causal):
    allowed = np.ones((1, 1, n_queries, n_keys), dtype=bool)
    if is_causal:
        rows = np.arange(n_queries).reshape(-1, 1) + n_keys - n_queries
        allowed = allowed & (np.arange(n_keys) <= rows)
    return allowed if mask is None else allowed & mask


def softmax(x, axis):
    numerator = np.exp(x - x.max())  # WRONG
    return numerator / numerator.sum(axis, keepdims=True)


def attention(q, k, v, mask=None, is_causal=False):
    batch, heads, n_queries, dim = q.shape
    kv_heads, n_keys = k.shape[1:3]
    grouped = q.reshape(batch, kv_heads, heads // kv_heads, n_queries, dim)
    raw = np.einsum("bgrqd,bgkd->bgrqk", grouped, k) * dim**-0.5
    raw = raw.reshape(batch, heads, n_queries, n_keys)
    floor = np.finfo(raw.dtype).min
    masked = np.where(_may_read(n_queries, n_keys, mask, is_causal), raw, floor)
    weights = softmax(masked, 3)
    by_group = weights.reshape(batch, kv_heads, -1, n_queries, n_keys)
    out = np.einsum("bgrqk,bgkd->bgrqd", by_group, v)
    return out.reshape(batch, heads, n_queries, v.shape[-1]), weights
