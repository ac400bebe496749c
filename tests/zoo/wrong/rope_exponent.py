"""Frequencies theta ** (-i / Dh) with i counting pairs: the 2 of the exponent is gone."""

import numpy as np

framework = "numpy"


def rope(x, positions, theta):
    dh = x.shape[-1]
    i = np.arange(dh // 2)
    frequencies = theta ** (-i / dh)  # WRONG
    angles = positions[:, None].astype(np.float64) * frequencies[None, :]
    c = np.cos(angles)
    s = np.sin(angles)
    first = x[..., : dh // 2]
    second = x[..., dh // 2 :]
    out = np.empty_like(x)
    out[..., : dh // 2] = first * c - second * s
    out[..., dh // 2 :] = first * s + second * c
    return out


def rms_norm(x, weight, eps):
    norm = np.linalg.norm(x, axis=-1, keepdims=True)
    return x / np.sqrt(norm**2 / x.shape[-1] + eps) * weight


def softmax(x, axis):
    e = np.exp2((x - x.max(axis, keepdims=True)) * np.float32(1.4426950408889634))
    return e / e.sum(axis, keepdims=True)
