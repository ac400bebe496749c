"""eps as a lower bound of the root mean square, np.maximum(rms, eps), where it belongs in the root."""

import numpy as np

framework = "numpy"


class RMSNorm:
    def __init__(self, gain, eps):
        self.gain = gain
        self.eps = eps

    def __call__(self, x):
        square = np.mean(x * x, axis=-1, keepdims=True)
        root = np.maximum(np.sqrt(square), self.eps)  # WRONG
        return self.gain * x / root


def rms_norm(x, weight, eps):
    return RMSNorm(weight, eps)(x)


class FeedForward:
    def __init__(self, *weights):
        self.inner, self.inner_bias, self.outer, self.outer_bias = weights

    def __call__(self, x):
        hidden = x @ self.inner + self.inner_bias
        return np.fmax(hidden, 0) @ self.outer + self.outer_bias


def ffn(x, w_1, b_1, w_2, b_2):
    return FeedForward(w_1, b_1, w_2, b_2)(x)
