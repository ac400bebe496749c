"""Compares directions only: q and k normalised to length 1 before the product, as in retrieval."""

import numpy as np

framework = "numpy"
fully_masked = "zero"


def unit(a):
    return a / np.maximum(np.linalg.norm(a, axis=-1, keepdims=True), 1e-30)


def attention(q, k, v, mask=None, is_causal=False):
    parts = np.split(q, k.shape[1], axis=1)
    columns = np.arange(k.shape[2])
    reach = columns[-1] if not is_causal else columns[k.shape[2] - q.shape[2] :]
    visible = columns <= np.reshape(reach, (-1, 1))
    visible = np.broadcast_to(visible, (1, 1, q.shape[2], k.shape[2]))
    visible = visible if mask is None else visible & mask
    dots = [unit(a) @ unit(k[:, i, None]).swapaxes(2, 3) for i, a in enumerate(parts)]  # WRONG
    scores = np.concatenate(dots, axis=1) / q.shape[3] ** 0.5
    e = np.exp(scores - np.where(visible, scores, -1e30).max(-1, keepdims=True))
    e = np.where(visible, e, 0)
    weights = e / np.where(visible.any(-1, keepdims=True), e.sum(-1, keepdims=True), 1)
    mixed = np.split(weights, k.shape[1], axis=1)
    return np.concatenate([w @ v[:, i, None] for i, w in enumerate(mixed)], axis=1), weights
