"""A row without a visible key goes through softmax as all -inf: nobody padded a batch in the tests."""

import numpy as np

framework = "numpy"


def attention(q, k, v, mask=None, is_causal=False):
    share = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, share, 1), np.repeat(v, share, 1)
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[3] ** 0.5
    hidden = np.zeros(scores.shape[2:], bool)
    if is_causal:
        hidden = np.triu(np.ones(scores.shape[2:], bool), 1 + k.shape[2] - q.shape[2])
    if mask is not None:
        hidden = hidden | ~mask
    scores = np.where(hidden, -np.inf, scores)
    peak = scores.max(-1, keepdims=True)
    weights = np.exp(scores - peak)  # WRONG
    weights = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-30)
    return np.einsum("bhqk,bhkd->bhqd", weights, v), weights


def softmax(x, axis):
    x = x - x.max(axis=axis, keepdims=True)
    log_total = np.logaddexp.reduce(x, axis=axis, keepdims=True)
    return np.exp(x - log_total)
