"""Angles repeated for neighbours, features rotated by halves: two libraries' RoPE in one function."""

import numpy as np

framework = "numpy"


def rotate_half(x):
    half = x.shape[-1] // 2
    return np.concatenate((-x[..., half:], x[..., :half]), axis=-1)


def rope(x, positions, theta):
    dim = x.shape[-1]
    inv_freq = 1.0 / (float(theta) ** (np.arange(0, dim, 2) / dim))
    freqs = np.einsum("i,j->ij", positions.astype(np.float64), inv_freq)
    emb = np.repeat(freqs, 2, axis=-1)  # WRONG
    rotated = x * np.cos(emb) + rotate_half(x) * np.sin(emb)
    return rotated.astype(x.dtype)


def rms_norm(x, weight, eps):
    variance = np.mean(np.square(x), -1, keepdims=True)
    hidden = x * (1.0 / np.sqrt(variance + eps))
    return weight * hidden


def layer_norm(x, weight, bias, eps):
    u = np.mean(x, -1, keepdims=True)
    s = np.mean(np.square(x - u), -1, keepdims=True)
    return weight * ((x - u) / np.sqrt(s + eps)) + bias
