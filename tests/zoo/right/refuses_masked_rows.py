"""Attention that refuses a query without a visible key: fully_masked = "error".

Three operations and nothing else. Exponentials are powers of two, as in GPU kernels,
and `attention` returns its output alone.
"""

import math

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
fully_masked = "error"

LOG2_E = math.log2(math.e)


def softmax(x, axis):
    powers = np.exp2(LOG2_E * (x - x.max(axis=axis, keepdims=True)))
    return powers / powers.sum(axis=axis, keepdims=True)


def rms_norm(x, weight, eps):
    # E[x^2] = Var[x] + E[x]^2, a sum of two non-negative terms
    mean_square = np.var(x, axis=-1) + np.mean(x, axis=-1) ** 2
    return x / np.sqrt(mean_square + eps)[..., None] * weight


def attention(q, k, v, mask=None, is_causal=False):
    batch, n_heads, tq, d_head = q.shape
    tk = k.shape[2]
    hidden = np.zeros((batch, n_heads, tq, tk), dtype=bool)
    if mask is not None:
        hidden |= ~mask
    if is_causal:
        hidden |= np.arange(tk) > np.arange(tk - tq, tk)[:, None]
    if hidden.all(axis=-1).any():
        raise ValueError("a query may read no key at all")

    group = n_heads // k.shape[1]
    output = np.empty((batch, n_heads, tq, v.shape[3]), dtype=q.dtype)
    for head in range(n_heads):
        keys, values = k[:, head // group], v[:, head // group]
        scores = np.matmul(q[:, head], keys.swapaxes(1, 2)) / math.sqrt(d_head)
        scores[hidden[:, head]] = -np.inf
        output[:, head] = softmax(scores, -1) @ values
    return output
