"""The storage of the values is that of the keys: the second write overwrites the first."""

import torch
import torch.nn.functional as F
from torch import nn

framework = "torch"
variant = "minimal"


class KVCache(nn.Module):
    def __init__(self, batch, heads, slots, width, dtype):
        super().__init__()
        storage = torch.zeros(batch, heads, slots, width, dtype=dtype)
        self.register_buffer("k_cache", storage)
        self.register_buffer("v_cache", storage)
        self.used = 0

    def update(self, k, v):
        end = self.used + k.shape[2]
        self.k_cache[:, :, self.used : end] = k
        self.v_cache[:, :, self.used : end] = v  # WRONG
        past, self.used = self.used, end
        if past == 0:
            return k, v
        return self.k_cache[:, :, :end], self.v_cache[:, :, :end]


class Layer(nn.Module):
    def __init__(self, p, c):
        super().__init__()
        self.p, self.c = p, c

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.p[name + ".weight"], self.p[name + ".bias"], self.c.norm_eps)

    def forward(self, x, cache):
        h = self.norm(x, "norm1")
        q, k, v = (
            (h @ self.p["attention.w_" + c]).unflatten(2, (self.c.n_heads, -1)).transpose(1, 2) for c in "qkv"
        )
        keys, values = cache.update(k, v)
        mask = torch.ones(q.shape[2], keys.shape[2], dtype=torch.bool).tril(keys.shape[2] - q.shape[2])
        z = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        x = x + z.transpose(1, 2).flatten(2) @ self.p["attention.w_o"]
        return x + F.relu(self.norm(x, "norm2") @ self.p["ffn.w_1"]) @ self.p["ffn.w_2"]


class Model(nn.Module):
    def __init__(self, config, params):
        super().__init__()
        self.c, self.p = config, params
        self.layers = nn.ModuleList()
        for n in range(config.n_layers):
            at = f"layers.{n}."
            self.layers.append(Layer({k[len(at) :]: v for k, v in params.items() if k.startswith(at)}, config))

    def forward(self, tokens, cache=None):
        x = self.p["embed"][tokens]
        if cache is None:
            sizes = (tokens.shape[0], self.c.n_heads, 160, self.c.d_head, x.dtype)
            cache = [KVCache(*sizes) for _ in self.layers]
        for layer, layer_cache in zip(self.layers, cache):
            x = layer(x, layer_cache)
        x = F.layer_norm(x, x.shape[-1:], self.p["final_norm.weight"], self.p["final_norm.bias"], self.c.norm_eps)
        return x @ self.p["lm_head"], cache
