"""Divides by the mean square itself: "RMS" with the R left out."""

import numpy as np

framework = "numpy"


def rms_norm(x, weight, eps):
    mean_square = np.square(x).mean(axis=-1, keepdims=True) + eps
    return x / mean_square * weight  # WRONG


def layer_norm(x, weight, bias, eps):
    features = x.shape[-1]
    mean = np.dot(x, np.full(features, 1 / features, dtype=x.dtype))[..., None]
    variance = np.mean((x - mean) ** 2, axis=-1)[..., None]
    return weight * ((x - mean) / np.sqrt(variance + eps)) + bias


def swiglu(x, w_gate, w_up, w_down):
    a = np.dot(x, w_gate)
    b = np.dot(x, w_up)
    return np.dot(a * b / (np.exp(-a) + 1), w_down)


def rope(x, positions, theta):
    dh = x.shape[-1]
    inverse = 1.0 / theta ** (np.arange(0, dh, 2) / dh)
    phase = positions.reshape(-1, 1) * inverse
    left, right = np.split(x, 2, axis=-1)
    turned = (left + 1j * right) * (np.cos(phase) + 1j * np.sin(phase))
    return np.concatenate([turned.real, turned.imag], -1).astype(x.dtype)
