"""Attention over blocks of keys with a running maximum and sum, as fused kernels do it."""

import torch

framework = "torch"
dtype = ["float32", "bfloat16", "float16"]
fully_masked = "zero"
BLOCK = 5


@torch.no_grad()
def attention(q, k, v, mask=None, is_causal=False):
    tq, tk = q.size(2), k.size(2)
    visible = torch.ones(tq, tk, dtype=torch.bool)
    if is_causal:
        visible = visible.tril(tk - tq)
    if mask is not None:
        visible = visible & mask
    visible = visible.expand(q.size(0), q.size(1), tq, tk)
    k, v = (t.repeat_interleave(q.size(1) // t.size(1), 1).float() for t in (k, v))
    scaled = q.float() / q.size(3) ** 0.5
    top = torch.full((*q.shape[:3], 1), -1e30)
    total = torch.zeros_like(top)
    out = torch.zeros(*q.shape[:3], v.size(3))
    for start in range(0, tk, BLOCK):
        keys, values = k[:, :, start : start + BLOCK], v[:, :, start : start + BLOCK]
        seen = visible[..., start : start + BLOCK]
        scores = (scaled @ keys.mT).masked_fill_(~seen, -1e30)
        new_top = torch.maximum(top, scores.amax(-1, keepdim=True))
        weights = (scores - new_top).exp_() * seen
        factor = (top - new_top).exp_()
        total.mul_(factor).add_(weights.sum(-1, keepdim=True))
        out.mul_(factor).add_(weights @ values)
        top = new_top
    return (out / total.clamp_min(1e-30)).to(q.dtype)
