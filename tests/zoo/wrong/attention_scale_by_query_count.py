"""Takes the scale from q.shape[2], the width in a [B, T, Dh] layout and a length in this one."""

import numpy as np

framework = "numpy"


def attention(q, k, v, mask=None, is_causal=False):
    group_size = q.shape[1] // k.shape[1]
    k_t = np.repeat(k, group_size, axis=1).transpose(0, 1, 3, 2)
    energy = np.matmul(q, k_t) / q.shape[2] ** 0.5  # WRONG
    blocked = np.zeros(energy.shape, dtype=bool)
    if is_causal:
        offset = energy.shape[3] - energy.shape[2]
        blocked |= np.triu(np.ones(energy.shape[2:], dtype=bool), k=offset + 1)
    if mask is not None:
        blocked |= np.logical_not(mask)
    energy[blocked] = np.finfo(energy.dtype).min
    energy = energy - energy.max(axis=3, keepdims=True)
    attn = np.exp(energy)
    attn = attn / attn.sum(axis=3, keepdims=True)
    return np.matmul(attn, np.repeat(v, group_size, axis=1)), attn


def layer_norm(x, weight, bias, eps):
    mu = x.mean(axis=2, keepdims=True)
    sigma = np.sqrt(x.var(axis=2, keepdims=True) + eps)
    return (x - mu) / sigma * weight + bias
