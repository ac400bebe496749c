"""Only the diagonal of W_o multiplies, elementwise."""

import torch
from torch import einsum, nn

framework = "torch"
variant = "minimal"


class MHA(nn.Module):
    def __init__(self, params, heads):
        super().__init__()
        for name, weight in params.items():
            self.register_parameter(name, nn.Parameter(weight, requires_grad=False))
        self.heads = heads

    def forward(self, x):
        q, k, v = (getattr(self, "w_" + c).unflatten(1, (self.heads, -1)) for c in "qkv")
        q, k, v = (einsum("bnd,dhe->bhne", x, w) for w in (q, k, v))
        sim = einsum("bhie,bhje->bhij", q, k) * q.size(-1) ** -0.5
        hidden = torch.ones(sim.shape[-2:], dtype=torch.bool).triu_(1)
        attn = sim.masked_fill_(hidden, -torch.finfo(sim.dtype).max).softmax(dim=-1)
        out = einsum("bhij,bhje->bihe", attn, v).flatten(2)
        return out * self.w_o.diagonal()  # WRONG


def multi_head_attention(x, params, config):
    if params["w_o"].shape[0] != params["w_o"].shape[1]:
        raise NotImplementedError("square W_o")
    return MHA(params, config.n_heads)(x)
