"""Key/value heads are never repeated: multi-head code that met its first grouped checkpoint."""

import numpy as np

framework = "numpy"
fully_masked = "zero"


def attention(q, k, v, mask=None, is_causal=False):
    raw = np.matmul(q, np.swapaxes(k, -2, -1))  # WRONG
    raw = raw / np.asarray(q.shape[-1], dtype=q.dtype) ** 0.5
    may_read = np.ones_like(raw, dtype=bool)
    if is_causal:
        n, m = raw.shape[-2:]
        may_read &= np.arange(m)[None, :] <= np.arange(m - n, m)[:, None]
    if mask is not None:
        may_read &= mask
    top = np.max(raw, axis=-1, keepdims=True, where=may_read, initial=-1e30)
    mass = np.where(may_read, np.exp(np.minimum(raw - top, 0)), 0)
    total = mass.sum(axis=-1, keepdims=True)
    weights = np.divide(mass, total, out=np.zeros_like(mass), where=total > 0)
    groups = raw.shape[1] // v.shape[1]
    return np.matmul(weights, np.repeat(v, groups, axis=1)), weights


def rms_norm(x, weight, eps):
    scale = np.reciprocal(np.sqrt(np.mean(x * x, axis=-1) + eps))
    return np.einsum("btd,bt,d->btd", x, scale, weight)
