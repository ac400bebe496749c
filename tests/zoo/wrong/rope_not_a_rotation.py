"""The minus sign of the rotation is missing in the first line, so lengths are not kept."""

import numpy as np

framework = "numpy"


def rope(x, positions, theta):
    half = x.shape[-1] // 2
    angle = positions[:, None] / np.power(float(theta), np.arange(half) / half)[None]
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    even, odd = x[..., ::2], x[..., 1::2]
    new_even = even * cos + odd * sin  # WRONG
    new_odd = even * sin + odd * cos
    return np.stack([new_even, new_odd], axis=-1).reshape(x.shape)


def layer_norm(x, weight, bias, eps):
    total = x.sum(axis=-1, keepdims=True)
    squares = np.square(x - total / x.shape[-1]).sum(axis=-1, keepdims=True)
    inverse = 1 / np.sqrt(squares / x.shape[-1] + eps)
    return (x - total / x.shape[-1]) * inverse * weight + bias


def swiglu(x, w_gate, w_up, w_down):
    z = np.einsum("btd,df->btf", x, w_gate)
    z = z * np.exp(-np.logaddexp(0, -z))
    return np.einsum("btf,btf,fd->btd", z, x @ w_up, w_down)
