"""An explicit mask replaces the causal one: `elif`, as in wrappers that pass either but not both."""

import numpy as np

framework = "numpy"
fully_masked = "mean"


def attention(q, k, v, mask=None, is_causal=False):
    b, h, tq, d = q.shape
    hk, tk = k.shape[1], k.shape[2]
    q5 = q.reshape(b, hk, h // hk, tq, d)
    scores = (q5 @ k[:, :, None].swapaxes(-1, -2)).reshape(b, h, tq, tk) * d**-0.5
    triangle = np.ones((tq, tk), dtype=bool)
    if is_causal and mask is None:  # WRONG
        triangle = np.tril(triangle, tk - tq)
    allowed = triangle if mask is None else np.logical_and(mask, triangle)
    scores = np.where(allowed, scores, np.float32(-3e38))
    scores = scores - scores.max(-1, keepdims=True)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    z = weights.reshape(b, hk, h // hk, tq, tk) @ v[:, :, None]
    return z.reshape(b, h, tq, v.shape[-1]), weights


def rope(x, positions, theta):
    pairs = np.arange(x.shape[-1] // 2)
    speed = theta ** (-2.0 * pairs / x.shape[-1])
    turn = np.exp(1j * positions[:, None] * speed)
    z = (x[..., 0::2] + 1j * x[..., 1::2]) * turn
    out = np.empty(x.shape, dtype=x.dtype)
    out[..., 0::2], out[..., 1::2] = z.real, z.imag
    return out
