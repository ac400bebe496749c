"""Attention normalises over the queries: axis -2 was read as "the keys are the second operand"."""

import numpy as np

framework = "numpy"


def attention(q, k, v, mask=None, is_causal=False):
    H, Tq, Dh = q.shape[1:]
    Hkv, Tk = k.shape[1:3]
    owner = np.arange(H) // (H // Hkv)
    k, v = k[:, owner], v[:, owner]

    s = np.einsum("bhid,bhjd->bhij", q, k) / Dh**0.5
    seen = np.ones((Tq, Tk), bool)
    if is_causal:
        seen = np.subtract.outer(np.arange(Tq) + Tk - Tq, np.arange(Tk)) >= 0
    seen = np.broadcast_to(seen, s.shape)
    if mask is not None:
        seen = seen & mask
    s = np.where(seen, s, -1e30)

    a = shares(s, axis=-2)  # WRONG
    return np.einsum("bhij,bhjd->bhid", a, v), a


def shares(values, axis):
    e = np.exp(values - values.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def rms_norm(x, weight, eps):
    return weight * x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)
