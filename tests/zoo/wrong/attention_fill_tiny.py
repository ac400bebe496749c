"""Fills with -1e-12 in place of -1e12: one sign too many in the exponent, so nothing is hidden."""

import numpy as np

framework = "numpy"


def attention(q, k, v, mask=None, is_causal=False):
    times = q.shape[1] // k.shape[1]
    k = np.concatenate([k[:, h // times, None] for h in range(q.shape[1])], axis=1)
    v = np.concatenate([v[:, h // times, None] for h in range(q.shape[1])], axis=1)
    compat = np.matmul(q, k.swapaxes(2, 3)) / float(q.shape[3]) ** 0.5
    n, m = compat.shape[2:]
    ok = np.fromfunction(lambda i, j: (j <= i + m - n) | (not is_causal), (n, m), dtype=int)
    if mask is not None:
        ok = np.logical_and(ok, mask)
    ok = np.broadcast_to(ok, compat.shape)
    np.putmask(compat, ~ok, -1e-12)  # WRONG
    compat -= compat.max(axis=-1, keepdims=True)
    w = np.exp(compat)
    w /= w.sum(axis=-1, keepdims=True)
    return np.matmul(w, v), w


def layer_norm(x, weight, bias, eps):
    first = np.mean(x, -1, keepdims=True)
    second = np.var(x, -1, keepdims=True)
    return np.divide(x - first, np.sqrt(second + eps)) * weight + bias
