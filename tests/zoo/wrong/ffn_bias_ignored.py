"""The first bias is accepted and never added: bias=False came with the template."""

import numpy as np

framework = "numpy"


def ffn(x, w_1, b_1, w_2, b_2):
    projected = np.matmul(x, w_1)  # WRONG
    kept = np.heaviside(projected, 0.0) * projected
    return np.matmul(kept, w_2) + b_2


def softmax(x, axis):
    centred = x - np.max(x, axis=axis, keepdims=True)
    partition = np.exp(centred).sum(axis=axis, keepdims=True)
    return np.exp(centred - np.log(partition))


def rms_norm(x, weight, eps):
    out = np.array(x)
    out *= weight
    out /= np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps)
    return out


def swiglu(x, w_gate, w_up, w_down):
    gate = np.matmul(x, w_gate)
    gate = np.divide(gate, 1 + np.exp(-gate))
    return np.matmul(np.multiply(gate, np.matmul(x, w_up)), w_down)
