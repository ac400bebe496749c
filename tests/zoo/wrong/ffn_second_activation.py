"""ReLU once more on the way out, from a Sequential whose every Linear is followed by one."""

import numpy as np

framework = "numpy"


def ffn(x, w_1, b_1, w_2, b_2):
    signal = x
    for w, b in ((w_1, b_1), (w_2, b_2)):
        signal = np.maximum(signal @ w + b, 0)  # WRONG
    return signal


def rms_norm(x, weight, eps):
    scale = np.sqrt(np.mean(x * np.conj(x), axis=-1) + eps)
    return x / scale[..., None] * weight[None, None]


def swiglu(x, w_gate, w_up, w_down):
    gate, up = (x @ w for w in (w_gate, w_up))
    gate = gate * (np.tanh(gate / 2) + 1) / 2
    return gate * up @ w_down


def softmax(x, axis):
    e = np.exp(x - np.max(x, axis, keepdims=True))
    e /= np.sum(e, axis, keepdims=True)
    return e
