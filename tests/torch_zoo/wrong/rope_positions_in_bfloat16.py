"""The rotary tables are buffers filled with the positions of the half-precision copy: bfloat16 counts to 256."""

import torch
import torch.nn.functional as F
from torch import nn

framework = "torch"
variant = "llama"


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class RMSNorm(nn.Module):
    def __init__(self, weight, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(weight, requires_grad=False), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, theta, length=8192):
        super().__init__()
        self.register_buffer("positions", torch.arange(length).to(torch.bfloat16))
        self.register_buffer("inv_freq", theta ** (-torch.arange(0, dim, 2).float() / dim))

    def forward(self, x, positions):
        angle = self.positions[positions].float()[:, None] * self.inv_freq  # WRONG
        angle = torch.cat((angle, angle), -1)
        return x * angle.cos() + rotate_half(x) * angle.sin()


def rope(x, positions, theta):
    return RotaryEmbedding(x.shape[-1], theta)(x, positions)


def rms_norm(x, weight, eps):
    return RMSNorm(weight, eps)(x)
