"""nn.RMSNorm without its eps: that of the dtype's precision, not the model's."""

import torch
from torch import nn

framework = "torch"


def rms_norm(x, weight, eps):
    norm = nn.RMSNorm(weight.numel(), dtype=x.dtype)
    with torch.no_grad():
        norm.weight.copy_(weight)
    return norm(x)  # WRONG
