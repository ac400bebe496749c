"""The position of new tokens is the number of cached ones plus one."""

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


class Rotary(nn.Module):
    def __init__(self, dim, theta, length=4096):
        super().__init__()
        angle = torch.outer(torch.arange(length).float(), theta ** (-torch.arange(0, dim, 2).float() / dim))
        angle = torch.cat((angle, angle), -1)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, x, cache_position):
        cos, sin = self.cos[cache_position], self.sin[cache_position]
        return x * cos + rotate_half(x) * sin


class DynamicCache:
    def __init__(self, layers):
        self.keys, self.values = [None] * layers, [None] * layers

    def __len__(self):
        return 0 if self.keys[0] is None else self.keys[0].shape[2]

    def update(self, n, k, v):
        if self.keys[n] is not None:
            k, v = torch.cat([self.keys[n], k], 2), torch.cat([self.values[n], v], 2)
        self.keys[n], self.values[n] = k, v
        return k, v


class Layer(nn.Module):
    def __init__(self, p, c, n):
        super().__init__()
        self.p, self.c, self.n = p, c, n
        self.norm1, self.norm2 = (RMSNorm(p[f"norm{i}.weight"], c.norm_eps) for i in (1, 2))
        self.rotary = Rotary(c.d_head, c.rope_theta)

    def forward(self, x, cache, cache_position):
        h = self.norm1(x)
        q, k, v = ((h @ self.p["attention.w_" + c]).unflatten(-1, (-1, w)).transpose(1, 2)
                   for c, w in (("q", self.c.d_head), ("k", self.c.d_head), ("v", self.c.d_value)))
        q_rot = self.rotary(q, cache_position)
        k_rot = self.rotary(k, cache_position)
        keys, values = cache.update(self.n, k_rot, v)
        mask = torch.ones(q.shape[2], keys.shape[2], dtype=torch.bool).tril(keys.shape[2] - q.shape[2])
        z = F.scaled_dot_product_attention(q_rot, keys, values, attn_mask=mask, enable_gqa=True)
        x = x + z.transpose(1, 2).flatten(2) @ self.p["attention.w_o"]
        h = self.norm2(x)
        return x + (F.silu(h @ self.p["ffn.w_gate"]) * (h @ self.p["ffn.w_up"])) @ self.p["ffn.w_down"]


class Model(nn.Module):
    def __init__(self, config, params):
        super().__init__()
        self.c, self.p = config, params
        self.layers = nn.ModuleList()
        for n in range(config.n_layers):
            at = f"layers.{n}."
            self.layers.append(Layer({k[len(at) :]: v for k, v in params.items() if k.startswith(at)}, config, n))
        self.norm = RMSNorm(params["final_norm.weight"], config.norm_eps)

    def forward(self, tokens, cache=None):
        if cache is None:
            cache = DynamicCache(len(self.layers))
        start = len(cache) and len(cache) + 1
        cache_position = torch.arange(start, start + tokens.shape[1])  # WRONG
        x = F.embedding(tokens, self.p["embed"])
        for layer in self.layers:
            x = layer(x, cache, cache_position)
        return self.norm(x) @ self.p["lm_head"], cache
