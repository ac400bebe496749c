"""Variance over n - 1, the default of torch.var and of np.std(ddof=1) in statistics courses."""

import numpy as np

framework = "numpy"


def layer_norm(x, weight, bias, eps):
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, ddof=1, keepdims=True)  # WRONG
    return weight * (x - mean) / np.sqrt(variance + eps) + bias


def rms_norm(x, weight, eps):
    power = (x * x).mean(axis=-1, keepdims=True)
    return weight * (x / np.sqrt(power + eps))


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def swiglu(x, w_gate, w_up, w_down):
    both = x @ np.concatenate([w_gate, w_up], axis=1)
    gate, up = np.split(both, 2, axis=-1)
    return (up * gate / (1 + np.exp(-gate))) @ w_down
