"""The mean square is taken in bfloat16 under a float32 model."""

import torch

framework = "torch"


class RMSNorm(torch.nn.Module):
    def __init__(self, weight, eps):
        super().__init__()
        self.register_buffer("weight", weight)
        self.eps = eps

    def forward(self, x):
        ms = x.to(torch.bfloat16).pow(2).mean(-1, keepdim=True)  # WRONG
        return x * torch.rsqrt(ms.to(x.dtype) + self.eps) * self.weight


def rms_norm(x, weight, eps):
    return RMSNorm(weight, eps)(x)
