"""Key/value heads tiled rather than repeated: np.tile read as torch's repeat_interleave."""

import numpy as np

framework = "numpy"
fully_masked = "mean"


def attention(q, k, v, mask=None, is_causal=False):
    group = q.shape[1] // k.shape[1]
    k, v = (np.tile(a, (1, group, 1, 1)) for a in (k, v))  # WRONG
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
    visible = np.ones(scores.shape[-2:], dtype=bool)
    if is_causal:
        visible = np.tril(visible, k=scores.shape[-1] - scores.shape[-2])
    if mask is not None:
        visible = visible & mask
    scores = np.where(visible, scores, np.finfo(scores.dtype).min)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return np.einsum("bhqk,bhkd->bhqd", scores, v)


def ffn(x, w_1, b_1, w_2, b_2):
    inner = np.einsum("...d,df->...f", x, w_1) + b_1
    return np.einsum("...f,fd->...d", np.clip(inner, 0, None), w_2) + b_2


def softmax(x, axis):
    moved = np.moveaxis(x, axis, -1)
    powers = np.exp(moved - moved.max(-1)[..., None])
    return np.moveaxis(powers / powers.sum(-1)[..., None], -1, axis)
