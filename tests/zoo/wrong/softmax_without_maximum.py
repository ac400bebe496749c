"""Softmax without its maximum subtracted: the textbook formula typed in as it is printed."""

import numpy as np

framework = "numpy"
fully_masked = "zero"


def softmax(x, axis):
    e = np.exp(x)  # WRONG
    return e / e.sum(axis=axis, keepdims=True)


def attention(q, k, v, mask=None, is_causal=False):
    heads, n_queries, width = q.shape[1:]
    n_keys = k.shape[2]
    group = heads // k.shape[1]
    k = np.repeat(k, group, axis=1)
    v = np.repeat(v, group, axis=1)
    logits = q @ k.swapaxes(2, 3) / width**0.5
    visible = np.ones(logits.shape, dtype=bool)
    if mask is not None:
        visible &= mask
    if is_causal:
        visible &= np.tril(np.ones((n_queries, n_keys), dtype=bool), n_keys - n_queries)
    someone = visible.any(axis=-1, keepdims=True)
    logits = np.where(visible | ~someone, logits, -np.inf)
    probabilities = np.where(someone, softmax(logits, -1), 0.0)
    return probabilities @ v, probabilities
