"""TorchScript functions: what is compiled is graded like anything else."""

import warnings

import torch
from torch import Tensor

warnings.simplefilter("ignore", DeprecationWarning)

framework = "torch"
dtype = ["float32", "float16"]


@torch.jit.script
def swiglu(x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor) -> Tensor:
    hidden = torch.nn.functional.silu(x @ w_gate) * (x @ w_up)
    return hidden @ w_down


@torch.jit.script
def normalise(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    y = x.float()
    y = y * torch.rsqrt(torch.mean(y * y, -1, True) + eps)
    return (y * weight).to(x.dtype)


def rms_norm(x, weight, eps):
    return normalise(x, weight, eps)
