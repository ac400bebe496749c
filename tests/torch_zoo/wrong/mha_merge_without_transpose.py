"""The heads are merged by a reshape of [B, H, T, Dh]."""

import torch
from torch.nn import Linear, Module
from torch.nn.functional import scaled_dot_product_attention

framework = "torch"
variant = "minimal"


class Attention(Module):
    def __init__(self, config):
        super().__init__()
        self.h = config.n_heads
        self.q_proj = Linear(config.d_model, config.n_heads * config.d_head, bias=False)
        self.k_proj = Linear(config.d_model, config.n_heads * config.d_head, bias=False)
        self.v_proj = Linear(config.d_model, config.n_heads * config.d_value, bias=False)
        self.o_proj = Linear(config.n_heads * config.d_value, config.d_model, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q = self.q_proj(x).reshape(b, t, self.h, -1).permute(0, 2, 1, 3)
        k = self.k_proj(x).reshape(b, t, self.h, -1).permute(0, 2, 1, 3)
        v = self.v_proj(x).reshape(b, t, self.h, -1).permute(0, 2, 1, 3)
        z = scaled_dot_product_attention(q, k, v, is_causal=True)
        z = z.reshape(b, t, -1)  # WRONG
        return self.o_proj(z)


def multi_head_attention(x, params, config):
    module = Attention(config).to(x.dtype)
    module.load_state_dict({f"{c}_proj.weight": params["w_" + c].T for c in "qkvo"})
    return module(x)
