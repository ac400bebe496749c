"""True is taken for "hide", as in key_padding_mask of nn.MultiheadAttention."""

import torch

framework = "torch"


def attention(q, k, v, mask=None, is_causal=False):
    n = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(n, 1), v.repeat_interleave(n, 1)
    scores = torch.matmul(q, k.mT) / q.shape[3] ** 0.5
    hidden = torch.zeros(scores.shape[2:], dtype=torch.bool)
    if is_causal:
        hidden = ~hidden.logical_not().tril(k.shape[2] - q.shape[2])
    if mask is not None:
        hidden = hidden | mask  # WRONG
    scores = scores.masked_fill(hidden, -1e9)
    weights = torch.softmax(scores, dim=-1)
    return torch.matmul(weights, v), weights
