"""The cache holds rotated keys, and all that come out of it are rotated again."""

import torch
import torch.nn.functional as F
from torch import nn

framework = "torch"
variant = "llama"


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class RMSNorm(nn.Module):
    def __init__(self, weight, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(weight, requires_grad=False), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Layer(nn.Module):
    def __init__(self, p, c):
        super().__init__()
        self.c = c
        self.norm1, self.norm2 = RMSNorm(p["norm1.weight"], c.norm_eps), RMSNorm(p["norm2.weight"], c.norm_eps)
        for name, value in p.items():
            if ".w_" in name:
                setattr(self, name.split(".")[1], nn.Parameter(value, requires_grad=False))

    def rotate(self, x, positions):
        inv_freq = self.c.rope_theta ** (-torch.arange(0, x.shape[-1], 2).float() / x.shape[-1])
        angle = torch.einsum("t,f->tf", positions.float(), inv_freq).repeat(1, 2)
        return x * angle.cos() + rotate_half(x) * angle.sin()

    def forward(self, x, past):
        c, h = self.c, self.norm1(x)
        xq = (h @ self.w_q).unflatten(-1, (c.n_heads, c.d_head)).transpose(1, 2)
        xk = (h @ self.w_k).unflatten(-1, (c.n_kv_heads, c.d_head)).transpose(1, 2)
        xv = (h @ self.w_v).unflatten(-1, (c.n_kv_heads, c.d_value)).transpose(1, 2)
        if past is not None:
            xk, xv = torch.cat((past[0], xk), 2), torch.cat((past[1], xv), 2)
        S, T = xk.shape[2], xq.shape[2]
        xk = self.rotate(xk, torch.arange(S))  # WRONG
        xq = self.rotate(xq, torch.arange(S - T, S))
        mask = torch.arange(S) <= torch.arange(S - T, S)[:, None]
        keys, values = (t.repeat_interleave(c.n_heads // c.n_kv_heads, 1) for t in (xk, xv))
        z = F.scaled_dot_product_attention(xq, keys, values, mask)
        x = x + z.transpose(1, 2).flatten(2) @ self.w_o
        h = self.norm2(x)
        return x + (F.silu(h @ self.w_gate) * (h @ self.w_up)) @ self.w_down, (xk, xv)


class Model(nn.Module):
    def __init__(self, config, params):
        super().__init__()
        self.embed, self.head = params["embed"], params["lm_head"]
        self.layers = nn.ModuleList()
        for n in range(config.n_layers):
            at = f"layers.{n}."
            self.layers.append(Layer({k[len(at) :]: v for k, v in params.items() if k.startswith(at)}, config))
        self.norm = RMSNorm(params["final_norm.weight"], config.norm_eps)

    def forward(self, tokens, cache=None):
        x, presents = self.embed[tokens], []
        for n, layer in enumerate(self.layers):
            x, present = layer(x, None if cache is None else cache[n])
            presents.append(present)
        return self.norm(x) @ self.head, presents
