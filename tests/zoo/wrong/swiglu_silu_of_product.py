"""SiLU applied to gate times up: the gate formula read as silu(a * b)."""

import numpy as np

framework = "numpy"


def sigmoid(z):
    return np.where(z >= 0, 1 / (1 + np.exp(-abs(z))), np.exp(-abs(z)) / (1 + np.exp(-abs(z))))


def swiglu(x, w_gate, w_up, w_down):
    gate = x @ w_gate
    up = x @ w_up
    hidden = gate * up * sigmoid(gate * up)  # WRONG
    return hidden @ w_down


def ffn(x, w_1, b_1, w_2, b_2):
    first = x @ w_1
    first += b_1
    np.maximum(first, 0, out=first)
    second = first @ w_2
    second += b_2
    return second


def rms_norm(x, weight, eps):
    ms = np.mean(x**2, axis=-1, keepdims=True)
    return weight * x * (ms + eps) ** -0.5
