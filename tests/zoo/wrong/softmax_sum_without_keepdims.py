"""Softmax forgets keepdims on the sum: a square score matrix broadcasts it along the other axis."""

import numpy as np

framework = "numpy"


def softmax(x, axis):
    peak = np.amax(x, axis, keepdims=True)
    exps = np.exp(x - peak)
    return exps / np.sum(exps, axis)  # WRONG


def rms_norm(x, weight, eps):
    width = x.shape[-1]
    energy = np.einsum("btd,btd->bt", x, x) / width
    return x * (1.0 / np.sqrt(energy + eps))[:, :, None] * weight


def ffn(x, w_1, b_1, w_2, b_2):
    flat = x.reshape(-1, x.shape[-1])
    hidden = flat @ w_1 + b_1
    hidden = hidden * (hidden > 0)
    out = hidden @ w_2 + b_2
    return out.reshape(*x.shape[:-1], w_2.shape[1])


def swiglu(x, w_gate, w_up, w_down):
    gate = np.einsum("btd,df->btf", x, w_gate)
    up = np.einsum("btd,df->btf", x, w_up)
    logistic = 0.5 * (1 + np.tanh(0.5 * gate))
    return np.einsum("btf,fd->btd", gate * logistic * up, w_down)
