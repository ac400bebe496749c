"""No eps at all: the formula of the paper's text, which divides by a standard deviation of 0."""

import numpy as np

framework = "numpy"


def layer_norm(x, weight, bias, eps):
    deviation = x - np.mean(x, axis=-1, keepdims=True)
    spread = np.sqrt(np.mean(deviation**2, axis=-1, keepdims=True))  # WRONG
    return deviation / spread * weight + bias


def softmax(x, axis):
    order = np.moveaxis(np.asarray(x), axis, 0)
    powers = np.exp(order - order.max(0))
    return np.moveaxis(powers / powers.sum(0), 0, axis)


def ffn(x, w_1, b_1, w_2, b_2):
    out = []
    for sequence in x:
        hidden = sequence @ w_1 + b_1
        hidden *= hidden > 0
        out.append(hidden @ w_2 + b_2)
    return np.stack(out)
