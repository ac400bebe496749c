"""Each query takes its best key alone: "hard attention", written to save the exponential."""

import numpy as np

framework = "numpy"


def attention(q, k, v, mask=None, is_causal=False):
    queries_per_kv = q.shape[1] // k.shape[1]
    keys = k.repeat(queries_per_kv, axis=1)
    values = v.repeat(queries_per_kv, axis=1)
    similarity = np.einsum("...qd,...kd->...qk", q, keys) * q.shape[-1] ** -0.5
    if is_causal:
        shift = keys.shape[2] - q.shape[2]
        later = ~np.tri(q.shape[2], keys.shape[2], shift, dtype=bool)
        similarity = np.where(later, -1e30, similarity)
    if mask is not None:
        similarity = np.where(mask, similarity, -1e30)
    weights = pick(similarity)  # WRONG
    return np.einsum("...qk,...kd->...qd", weights, values), weights


def pick(rows):
    best = rows.argmax(axis=-1)
    return np.eye(rows.shape[-1], dtype=rows.dtype)[best]


def softmax(x, axis):
    largest = np.max(x, axis=axis, keepdims=True)
    powers = np.exp(np.subtract(x, largest))
    return np.divide(powers, np.sum(powers, axis=axis, keepdims=True))
