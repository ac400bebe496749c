"""Results whose memory is laid out oddly: Fortran order, steps of two, backwards, every row the same memory.

The contract hands out contiguous copies, so operations at odd strides are those of what comes back.
"""

import numpy as np

variant = "minimal"
dtype = ["float32", "float64"]


def spread_out(result):
    """The same values, every second element of an array twice as wide."""
    wide = np.full((*result.shape[:-1], 2 * result.shape[-1]), np.nan, result.dtype)
    wide[..., ::2] = result
    return wide[..., ::2]


def backwards(result):
    """The same values, in memory from the last to the first."""
    return np.ascontiguousarray(result[..., ::-1])[..., ::-1]


def softmax(x, axis):
    moved = np.moveaxis(x, axis, 0)
    powers = np.exp(moved - moved.max(0))
    return np.moveaxis(powers / powers.sum(0), 0, axis)


def layer_norm(x, weight, bias, eps):
    variance = x.var(-1, keepdims=True)
    return np.asfortranarray((x - x.mean(-1, keepdims=True)) / np.sqrt(variance + eps) * weight + bias)


def rms_norm(x, weight, eps):
    return spread_out(x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight)


def ffn(x, w_1, b_1, w_2, b_2):
    return backwards(np.maximum(x @ w_1 + b_1, 0) @ w_2 + b_2)


def attention(q, k, v, mask=None, is_causal=False):
    shared = q.shape[1] // k.shape[1]
    # Views with a stride of 0: query heads that read the same key head share its memory.
    def for_queries(a):
        wide = np.broadcast_to(a[:, :, None], (*a.shape[:2], shared, *a.shape[2:]))
        return wide.reshape(a.shape[0], -1, *a.shape[2:])

    scores = q @ for_queries(k).swapaxes(-1, -2) / np.sqrt(np.asarray(q.shape[-1], q.dtype))
    visible = np.ones(scores.shape[-2:], bool)
    if is_causal:
        visible = np.tril(visible, scores.shape[-1] - scores.shape[-2])
    if mask is not None:
        visible = visible & mask
    visible = np.broadcast_to(visible, scores.shape)
    scores = np.where(visible, scores, np.finfo(scores.dtype).min)
    weights = np.where(visible.any(-1, keepdims=True), softmax(scores, -1), 0).astype(q.dtype)
    weights = np.where(visible, weights, 0)
    return spread_out(weights @ for_queries(v)), backwards(weights)
