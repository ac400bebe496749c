"""The mask multiplies the finished weights, so rows no longer sum to 1: a mask added late."""

import numpy as np

framework = "numpy"
fully_masked = "zero"


class ScaledDotProduct:
    def __init__(self, heads, kv_heads, width):
        self.factor = width ** (-1 / 2)
        self.copies = heads // kv_heads

    def visible(self, n, m, mask, causal):
        grid = np.full((1, 1, n, m), True)
        if causal:
            grid = grid & (np.arange(m) - (m - n) <= np.arange(n)[:, None])
        if mask is not None:
            grid = grid & mask
        return grid

    def weights(self, q, k, grid):
        k = np.repeat(k, self.copies, axis=1)
        s = self.factor * np.einsum("bhid,bhjd->bhij", q, k)
        p = np.exp(s - s.max(axis=-1, keepdims=True))
        return p / p.sum(axis=-1, keepdims=True) * grid  # WRONG

    def __call__(self, q, k, v, mask, causal):
        grid = self.visible(q.shape[2], k.shape[2], mask, causal)
        p = self.weights(q, k, grid)
        return np.einsum("bhij,bhjd->bhid", p, np.repeat(v, self.copies, axis=1)), p


def attention(q, k, v, mask=None, is_causal=False):
    core = ScaledDotProduct(q.shape[1], k.shape[1], q.shape[3])
    return core(q, k, v, mask, is_causal)
