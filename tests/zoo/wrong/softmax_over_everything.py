"""Softmax divides by the sum of the whole tensor: tried out on one vector and never again."""

import numpy as np

framework = "numpy"


def softmax(x, axis):
    shifted = x - np.max(x, axis=axis, keepdims=True)
    powers = np.exp(shifted)
    return powers / np.sum(powers)  # WRONG


def layer_norm(x, weight, bias, eps):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(np.square(centred), axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * weight + bias


def rms_norm(x, weight, eps):
    mean_square = np.mean(np.square(x), axis=-1, keepdims=True)
    return x / np.sqrt(mean_square + eps) * weight


def ffn(x, w_1, b_1, w_2, b_2):
    before = np.matmul(x, w_1) + b_1
    after = np.maximum(before, 0)
    return np.matmul(after, w_2) + b_2
