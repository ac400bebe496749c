"""The variance is kept in float16, copied from a mixed-precision kernel without its float32 accumulator."""

import numpy as np

framework = "numpy"


def layer_norm(x, weight, bias, eps):
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True).astype(np.float16)  # WRONG
    normed = (x - mean) / np.sqrt(variance + eps)
    return (normed * weight + bias).astype(x.dtype)


def rms_norm(x, weight, eps):
    rms = np.sqrt(np.mean(np.power(x, 2), axis=-1, keepdims=True) + eps)
    return np.multiply(np.divide(x, rms), weight)


def swiglu(x, w_gate, w_up, w_down):
    gate = np.matmul(x, w_gate)
    gate = gate * np.reciprocal(1 + np.exp(-gate))
    gate = gate * np.matmul(x, w_up)
    return np.matmul(gate, w_down)


def softmax(x, axis):
    z = x - np.max(x, axis=axis, keepdims=True)
    return np.exp(z) / np.sum(np.exp(z), axis=axis, keepdims=True)
