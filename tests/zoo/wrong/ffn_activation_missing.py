"""Two matrices and nothing between them: the non-linearity was lost in a clean-up."""

import numpy as np

framework = "numpy"


def ffn(x, w_1, b_1, w_2, b_2):
    hidden = linear(x, w_1, b_1)  # WRONG
    return linear(hidden, w_2, b_2)


def linear(x, w, b):
    return np.einsum("...i,io->...o", x, w) + b


def relu(x):
    return (np.abs(x) + x) / 2


def layer_norm(x, weight, bias, eps):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return linear((x - mean) / np.sqrt(var + eps), np.diag(weight), bias)


def softmax(x, axis):
    x = x - x.max(axis=axis, keepdims=True)
    np.exp(x, out=x)
    return x / x.sum(axis=axis, keepdims=True)
