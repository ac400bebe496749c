"""Adds -1e4 to the hidden scores: a half-precision habit that leaks once scores spread as far."""

import numpy as np

framework = "numpy"


def stable(row):
    row = row - row.max(axis=-1, keepdims=True)
    row = np.exp(row)
    return row / row.sum(axis=-1, keepdims=True)


def attention(q, k, v, mask=None, is_causal=False):
    B, H, Q, D = q.shape
    per = H // k.shape[1]
    penalty = np.zeros((B, H, Q, k.shape[2]), np.float32)
    if mask is not None:
        penalty = penalty + ~mask
    if is_causal:
        penalty = penalty + np.triu(np.ones((Q, k.shape[2]), np.float32), k.shape[2] - Q + 1)
    heads = []
    for h in range(H):
        s = np.einsum("bqd,bkd->bqk", q[:, h], k[:, h // per]) / D**0.5
        s = s + np.minimum(penalty[:, h], 1) * -1e4  # WRONG
        heads.append(np.einsum("bqk,bkd->bqd", stable(s), v[:, h // per]))
    return np.stack(heads, axis=1)


def rms_norm(x, weight, eps):
    root = np.sqrt(np.square(x).sum(axis=-1) / x.shape[-1] + eps)
    return x / np.expand_dims(root, -1) * weight
