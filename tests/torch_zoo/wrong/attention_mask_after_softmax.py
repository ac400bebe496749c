"""masked_fill after the softmax: the weights of what is left do not sum to 1."""

import torch

framework = "torch"


def attention(q, k, v, mask=None, is_causal=False):
    groups = q.shape[1] // k.shape[1]
    k, v = torch.repeat_interleave(k, groups, 1), torch.repeat_interleave(v, groups, 1)
    visible = q.new_ones(q.shape[2], k.shape[2]).bool()
    if is_causal:
        visible = torch.tril(visible, diagonal=k.shape[2] - q.shape[2])
    if mask is not None:
        visible = torch.logical_and(visible, mask)
    att = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1)
    att = att.masked_fill(visible.logical_not(), 0.0)  # WRONG
    return att @ v, att
