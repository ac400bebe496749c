"""Multiplies by w_2 transposed, torch's [out, in] habit: silent as long as d_ff equals d_model."""

import numpy as np

framework = "numpy"


def ffn(x, w_1, b_1, w_2, b_2):
    pre = x @ w_1 + b_1
    post = pre.clip(min=0)
    return post @ w_2.T + b_2  # WRONG


def layer_norm(x, weight, bias, eps):
    x = x - x.mean(axis=-1, keepdims=True)
    x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    return x * weight + bias


def rope(x, positions, theta):
    d = x.shape[-1]
    freq = np.exp(-np.log(theta) * np.arange(0, d, 2) / d)
    phase = positions[:, None] * freq
    rot = np.array([[np.cos(phase), -np.sin(phase)], [np.sin(phase), np.cos(phase)]])
    pairs = np.stack([x[..., ::2], x[..., 1::2]])
    turned = np.einsum("ijtf,jbhtf->bhtfi", rot, pairs)
    return turned.reshape(x.shape).astype(x.dtype)
