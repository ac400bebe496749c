"""Mean and variance over tokens and features together, nn.LayerNorm((T, D)) written out."""

import numpy as np

framework = "numpy"


def moments(x):
    axes = tuple(range(1, x.ndim))  # WRONG
    mean = x.mean(axis=axes, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
    return mean, variance


def layer_norm(x, weight, bias, eps):
    mean, variance = moments(x)
    normed = (x - mean) / np.sqrt(variance + eps)
    return normed * weight + bias


def softmax(x, axis):
    highest = x.max(axis, keepdims=True)
    parts = np.exp(x - highest)
    return parts / parts.sum(axis, keepdims=True)


def ffn(x, w_1, b_1, w_2, b_2):
    hidden = np.add(np.dot(x, w_1), b_1)
    hidden = np.where(hidden > 0, hidden, 0)
    return np.add(np.dot(hidden, w_2), b_2)
