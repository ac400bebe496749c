"""torch.var divides by D - 1 unless told otherwise."""

import torch
from torch import nn

framework = "torch"


class LayerNorm(nn.Module):
    def __init__(self, gamma, beta, eps):
        super().__init__()
        self.gamma, self.beta, self.eps = gamma, beta, eps

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        var = x.var(dim=-1, keepdim=True)  # WRONG
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


def layer_norm(x, weight, bias, eps):
    return LayerNorm(weight, bias, eps)(x)
