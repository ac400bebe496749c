"""Scores divided by Dh, not its root: the square root got lost when the scale was folded into q."""

import numpy as np

framework = "numpy"
fully_masked = "zero"


def attention(q, k, v, mask=None, is_causal=False):
    out = np.zeros((*q.shape[:3], v.shape[3]), dtype=q.dtype)
    shared = q.shape[1] // k.shape[1]
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            table = q[b, h] @ k[b, h // shared].T / q.shape[3]  # WRONG
            n, m = table.shape
            open_ = np.ones((n, m), dtype=bool)
            if is_causal:
                open_ = np.tri(n, m, m - n, dtype=bool)
            if mask is not None:
                mb = b if mask.shape[0] > 1 else 0
                mh = h if mask.shape[1] > 1 else 0
                open_ = open_ & mask[mb, mh]
            for i in range(n):
                j = np.flatnonzero(open_[i])
                if j.size == 0:
                    continue
                row = np.exp(table[i, j] - table[i, j].max())
                out[b, h, i] = (row / row.sum()) @ v[b, h // shared, j]
    return out


def softmax(x, axis):
    e = np.exp(x - np.amax(x, axis=axis, keepdims=True))
    return e / np.add.reduce(e, axis=axis, keepdims=True)
