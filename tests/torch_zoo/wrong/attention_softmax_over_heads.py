"""softmax(dim=1) on [B, H, T, T]: right for three axes, the heads with four."""

import torch
import torch.nn.functional as F

framework = "torch"


def attention(q, k, v, mask=None, is_causal=False):
    n = q.shape[1] // k.shape[1]
    k, v = (t[:, :, None].expand(-1, -1, n, -1, -1).flatten(1, 2) for t in (k, v))
    att = torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
    if is_causal:
        future = torch.ones_like(att, dtype=torch.bool).triu(1 + k.shape[2] - q.shape[2])
        att = att.masked_fill(future, -1e9)
    if mask is not None:
        att = att.masked_fill(~mask, -1e9)
    att = F.softmax(att, dim=1)  # WRONG
    return torch.einsum("bhqk,bhkd->bhqd", att, v), att
