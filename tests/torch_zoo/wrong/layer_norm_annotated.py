"""The Annotated Transformer's LayerNorm: x.std is unbiased, and eps stands outside the root."""

from torch import nn

framework = "torch"


class LayerNorm(nn.Module):
    def __init__(self, a_2, b_2, eps=1e-6):
        super().__init__()
        self.a_2, self.b_2, self.eps = a_2, b_2, eps

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True)  # WRONG
        return self.a_2 * (x - mean) / (std + self.eps) + self.b_2


def layer_norm(x, weight, bias, eps):
    return LayerNorm(weight, bias, eps)(x)
