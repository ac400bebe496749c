"""The frequencies are built from the slowest to the fastest."""

import torch

framework = "torch"
variant = "llama"


def build_rope_cache(length, dim, base):
    theta = 1.0 / base ** (torch.arange(dim - 2, -1, -2).float() / dim)  # WRONG
    idx_theta = torch.outer(torch.arange(length).float(), theta)
    return idx_theta.cos(), idx_theta.sin()


def rope(x, positions, theta):
    cos, sin = build_rope_cache(8192, x.shape[-1], theta)
    cos, sin = cos[positions], sin[positions]
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
