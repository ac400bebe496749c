"""Complex numbers pair neighbours; this model's layout pairs the halves."""

import torch

framework = "torch"
variant = "llama"


class Rotary(torch.nn.Module):
    def __init__(self, dim, theta):
        super().__init__()
        self.register_buffer("inv_freq", theta ** (-torch.arange(0, dim, 2).float() / dim), persistent=False)

    def forward(self, x, positions):
        freqs = torch.outer(positions.float(), self.inv_freq)
        turn = torch.polar(torch.ones_like(freqs), freqs)
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * turn).flatten(-2).to(x.dtype)  # WRONG


def rope(x, positions, theta):
    return Rotary(x.shape[-1], theta)(x, positions)
