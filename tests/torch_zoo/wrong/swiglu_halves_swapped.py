"""The fused gate and up projection is chunked the wrong way round."""

import torch
import torch.nn.functional as F
from torch import nn

framework = "torch"


class SwiGLU(nn.Module):
    def __init__(self, w_gate, w_up, w_down):
        super().__init__()
        self.gate_up = nn.Linear(w_gate.shape[0], 2 * w_gate.shape[1], bias=False)
        self.down = nn.Linear(*w_down.shape, bias=False)
        self.gate_up.weight.copy_(torch.cat([w_gate, w_up], dim=1).T)
        self.down.weight.copy_(w_down.T)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(up) * gate)  # WRONG


def swiglu(x, w_gate, w_up, w_down):
    return SwiGLU(w_gate, w_up, w_down)(x)
