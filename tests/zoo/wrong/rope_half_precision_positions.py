"""Positions held in float16, so 2049 becomes 2048: the whole table was cast with the weights."""

import numpy as np

framework = "numpy"


def angle_table(positions, width, theta):
    exponent = np.arange(0, width, 2, dtype=np.float64) / width
    steps = positions.astype(np.float16)  # WRONG
    return steps.astype(np.float64)[:, None] / theta**exponent


def rope(x, positions, theta):
    table = angle_table(positions, x.shape[-1], theta)
    cos, sin = np.cos(table), np.sin(table)
    pairs = x.reshape(*x.shape[:-1], 2, -1)
    a, b = pairs[..., 0, :], pairs[..., 1, :]
    turned = np.stack([a * cos - b * sin, a * sin + b * cos], axis=-2)
    return turned.reshape(x.shape).astype(x.dtype)


def softmax(x, axis):
    mass = np.exp(x - np.maximum.reduce(x, axis=axis, keepdims=True))
    return mass / np.add.reduce(mass, axis=axis, keepdims=True)


def rms_norm(x, weight, eps):
    return np.einsum("btd,d->btd", x / np.sqrt((x * x).mean(2, keepdims=True) + eps), weight)
