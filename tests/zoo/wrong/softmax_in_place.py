"""Softmax works inside its argument to save an allocation: hand-optimised inference code."""

import numpy as np

framework = "numpy"


def softmax(x, axis):
    x -= x.max(axis=axis, keepdims=True)  # WRONG
    e = np.exp(x)
    total = e.sum(axis=axis, keepdims=True)
    return e / total


def swiglu(x, w_gate, w_up, w_down):
    g = x @ w_gate
    silu = g / (1 + np.exp(-np.clip(g, -80, None)))
    hidden = silu * (x @ w_up)
    return hidden @ w_down


def rope(x, positions, theta):
    half = x.shape[-1] // 2
    frequency = float(theta) ** (-np.arange(half) / half)
    angle = np.multiply.outer(positions.astype(np.float64), frequency)
    cos, sin = np.cos(angle), np.sin(angle)
    a, b = x[..., :half], x[..., half:]
    turned = np.concatenate((a * cos - b * sin, a * sin + b * cos), axis=-1)
    return turned.astype(x.dtype)
