"""Adds (1 - mask) * -inf, where 0 * -inf is NaN at every visible key: ported from a -1e9 version."""

import numpy as np

framework = "numpy"


def attention(q, k, v, mask=None, is_causal=False):
    n_head, n_q, width = q.shape[1:]
    n_k = k.shape[2]
    if k.shape[1] != n_head:
        k = np.repeat(k, n_head // k.shape[1], axis=1)
        v = np.repeat(v, n_head // v.shape[1], axis=1)
    att = np.matmul(q, k.transpose(0, 1, 3, 2)) * (1.0 / width**0.5)
    if is_causal:
        lower = np.tri(n_q, n_k, n_k - n_q, dtype=bool)
        mask = lower[None, None] if mask is None else mask & lower
    if mask is not None:
        att = att + (1 - mask.astype(att.dtype)) * -np.inf  # WRONG
    att = np.exp(att - att.max(axis=-1, keepdims=True))
    att = att / att.sum(axis=-1, keepdims=True)
    return np.matmul(att, v)


def ffn(x, w_1, b_1, w_2, b_2):
    h = np.tensordot(x, w_1, axes=1) + b_1
    h[h < 0] = 0
    return np.tensordot(h, w_2, axes=1) + b_2
