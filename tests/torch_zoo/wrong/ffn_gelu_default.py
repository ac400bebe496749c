"""F.gelu's default is the erf form; GPT-2 has the tanh form."""

import torch
import torch.nn.functional as F
from torch import nn

framework = "torch"
variant = "gpt2"


class MLP(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.c_fc = nn.Linear(d_model, d_ff)
        self.c_proj = nn.Linear(d_ff, d_model)

    def forward(self, x):
        x = self.c_fc(x)
        x = F.gelu(x)  # WRONG
        return self.c_proj(x)


def ffn(x, w_1, b_1, w_2, b_2):
    mlp = MLP(*w_1.shape).to(x.dtype)
    mlp.load_state_dict(
        {"c_fc.weight": w_1.T, "c_fc.bias": b_1, "c_proj.weight": w_2.T, "c_proj.bias": b_2}, strict=True
    )
    return mlp(x)
