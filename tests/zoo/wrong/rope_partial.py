"""Rotates the first half of the features only: GPT-NeoX's rotary_pct left at 0.5."""

import numpy as np

framework = "numpy"


def rope(x, positions, theta):
    d = x.shape[-1]
    out = x.copy()
    for pair in range(d // 4):  # WRONG
        angle = positions * float(theta) ** (-2 * pair / d)
        cos, sin = np.cos(angle), np.sin(angle)
        even, odd = x[..., 2 * pair], x[..., 2 * pair + 1]
        out[..., 2 * pair] = even * cos - odd * sin
        out[..., 2 * pair + 1] = even * sin + odd * cos
    return out


def softmax(x, axis):
    result = np.apply_along_axis(one_slice, axis, x)
    return result.astype(x.dtype)


def one_slice(v):
    powers = np.exp(v - v.max())
    return powers / powers.sum()


def ffn(x, w_1, b_1, w_2, b_2):
    hidden = np.einsum("btd,df->btf", x, w_1) + b_1
    active = np.where(hidden < 0, 0, hidden)
    return np.einsum("btf,fd->btd", active, w_2) + b_2
