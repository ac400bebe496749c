"""The operations written out: in place on copies, statistics in float32, both as small modules and functions."""

import torch
from torch import Tensor, nn

framework = "torch"
dtype = ["float32", "bfloat16", "float16"]
fully_masked = "zero"


def softmax(x: Tensor, axis: int) -> Tensor:
    e = (x.float() - x.float().amax(axis, keepdim=True)).exp_()
    return e.div_(e.sum(axis, keepdim=True)).to(x.dtype)


def layer_norm(x, weight, bias, eps):
    y = x.float()
    var, mean = torch.var_mean(y, dim=-1, correction=0, keepdim=True)
    return ((y - mean) * (var + eps).rsqrt_() * weight + bias).to(x.dtype)


class RMSNorm(nn.Module):
    def __init__(self, weight, eps):
        super().__init__()
        self.weight, self.eps = weight, eps

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)


def rms_norm(x, weight, eps):
    return RMSNorm(weight, eps)(x)


def rope(x, positions, theta):
    half = x.size(-1) // 2
    freq = torch.as_tensor(theta, dtype=torch.float64) ** -(torch.arange(half) / half)
    angle = positions[:, None] * freq
    a, b = x.double().chunk(2, dim=-1)
    out = torch.empty_like(x)
    out[..., :half] = a * angle.cos() - b * angle.sin()
    out[..., half:] = a * angle.sin() + b * angle.cos()
    return out


def attention(q, k, v, mask=None, is_causal=False):
    b, h, tq, d = q.shape
    hkv, tk = k.shape[1:3]
    visible = torch.ones(tq, tk, dtype=torch.bool)
    if is_causal:
        visible.tril_(tk - tq)
    if mask is not None:
        visible = visible & mask
    q = q.reshape(b, hkv, h // hkv, tq, d)
    scores = (q * d**-0.5) @ k.unsqueeze(2).mT
    shape = (h // hkv, tq, tk)
    seen = visible.expand(b, h, tq, tk).reshape(b, hkv, *shape)
    scores = scores.float().masked_fill_(~seen, -torch.inf)
    weights = torch.where(seen.any(-1, keepdim=True), scores, 0.0).softmax(-1).masked_fill_(~seen, 0)
    weights = weights.to(v.dtype)
    out = weights @ v.unsqueeze(2)
    return out.flatten(1, 2), weights.flatten(1, 2)


def ffn(x, w_1, b_1, w_2, b_2):
    return torch.addmm(b_2, torch.addmm(b_1, x.flatten(0, 1), w_1).clamp_min_(0), w_2).view_as(x)


def swiglu(x, w_gate, w_up, w_down):
    gate, up = (x @ torch.cat([w_gate, w_up], dim=1)).chunk(2, dim=-1)
    return (gate * gate.sigmoid() * up) @ w_down
