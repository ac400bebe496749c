"""eps added to the standard deviation rather than to the variance: the Annotated Transformer's norm."""

import numpy as np

framework = "numpy"


def layer_norm(x, weight, bias, eps):
    centred = x - x.mean(-1, keepdims=True)
    std = np.sqrt((centred * centred).mean(-1, keepdims=True))
    return weight * centred / (std + eps) + bias  # WRONG


def ffn(x, w_1, b_1, w_2, b_2):
    return np.maximum(x @ w_1 + b_1, 0) @ w_2 + b_2


def rope(x, positions, theta):
    width = x.shape[-1]
    angles = np.outer(positions, np.power(float(theta), -np.arange(0, width, 2) / width))
    cos = np.tile(np.cos(angles), 2)
    sin = np.tile(np.sin(angles), 2)
    swapped = np.concatenate([-x[..., width // 2 :], x[..., : width // 2]], axis=-1)
    return (x * cos + swapped * sin).astype(x.dtype)
