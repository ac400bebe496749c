"""Fills with -10000 as the first BERT did: a key behind it wins when all visible scores are lower."""

import numpy as np

framework = "numpy"
fully_masked = "mean"

HIDDEN = -10000.0


def attention(q, k, v, mask=None, is_causal=False):
    nq, nk = q.shape[2], k.shape[2]
    k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    v = np.repeat(v, q.shape[1] // v.shape[1], axis=1)
    dots = (q * q.shape[3] ** -0.5) @ k.transpose(0, 1, 3, 2)
    readable = np.ones(dots.shape, dtype=bool)
    if is_causal:
        last = np.arange(nq) + (nk - nq)
        readable &= np.arange(nk) <= last[:, np.newaxis]
    if mask is not None:
        readable &= mask
    dots = np.where(readable, dots, HIDDEN)  # WRONG
    dots = dots - dots.max(axis=-1, keepdims=True)
    p = np.exp(dots)
    return (p / p.sum(axis=-1, keepdims=True)) @ v


def rope(x, positions, theta):
    d = x.shape[-1]
    out = np.empty_like(x)
    for i in range(d // 2):
        angle = positions / theta ** (2 * i / d)
        c, s = np.cos(angle), np.sin(angle)
        out[..., i] = x[..., i] * c - x[..., i + d // 2] * s
        out[..., i + d // 2] = x[..., i] * s + x[..., i + d // 2] * c
    return out
