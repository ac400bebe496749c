"""Frequencies theta ** (2i / Dh): the minus sign of the exponent is gone, and later pairs turn faster."""

import numpy as np

framework = "numpy"


def rope(x, positions, theta):
    pairs = np.arange(0, x.shape[-1], 2, dtype=np.float64)
    inv_freq = theta ** (pairs / x.shape[-1])  # WRONG
    angles = np.outer(positions, inv_freq)
    cos = np.concatenate([np.cos(angles)] * 2, axis=-1)
    sin = np.concatenate([np.sin(angles)] * 2, axis=-1)
    x1, x2 = np.split(x, 2, axis=-1)
    rotated = np.concatenate([-x2, x1], axis=-1)
    return (x * cos + rotated * sin).astype(x.dtype)
