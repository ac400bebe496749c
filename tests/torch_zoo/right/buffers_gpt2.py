"""GPT-2 whose cache is preallocated storage, written by index_copy_ at the cache positions."""

import torch
from torch import nn
from torch.nn import functional as F

framework = "torch"
dtype = ["float32", "bfloat16"]
variant = "gpt2"
SLOTS = 160


class StaticCache(nn.Module):
    def __init__(self, layers, batch, heads, width, dtype):
        super().__init__()
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(layers, batch, heads, SLOTS, width, dtype=dtype))
        self.length = 0

    def update(self, layer, k, v, cache_position):
        self.keys[layer].index_copy_(2, cache_position, k)
        self.values[layer].index_copy_(2, cache_position, v)
        return self.keys[layer], self.values[layer]


class Conv1D(nn.Module):
    """GPT-2's linear layer: the weight is [in, out]."""

    def __init__(self, weight, bias):
        super().__init__()
        self.weight, self.bias = weight, bias

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.shape[:-1], -1)


class Block(nn.Module):
    def __init__(self, p, config, n):
        super().__init__()
        self.p, self.c, self.n = p, config, n
        self.c_attn = Conv1D(
            torch.cat([p["attention.w_" + c] for c in "qkv"], 1), torch.cat([p["attention.b_" + c] for c in "qkv"])
        )
        self.c_proj = Conv1D(p["attention.w_o"], p["attention.b_o"])
        self.mlp = nn.Sequential(
            Conv1D(p["ffn.w_1"], p["ffn.b_1"]), nn.GELU("tanh"), Conv1D(p["ffn.w_2"], p["ffn.b_2"])
        )

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.p[name + ".weight"], self.p[name + ".bias"], self.c.norm_eps)

    def forward(self, x, cache, cache_position, mask):
        q, k, v = (
            part.unflatten(2, (self.c.n_heads, -1)).transpose(1, 2)
            for part in self.c_attn(self.norm(x, "norm1")).chunk(3, dim=2)
        )
        keys, values = cache.update(self.n, k, v, cache_position)
        z = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        x = x + self.c_proj(z.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm(x, "norm2"))


class Model(nn.Module):
    def __init__(self, config, params):
        super().__init__()
        self.c, self.p = config, params
        self.h = nn.ModuleList()
        for n in range(config.n_layers):
            at = f"layers.{n}."
            self.h.append(Block({k[len(at) :]: v for k, v in params.items() if k.startswith(at)}, config, n))

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c, p = self.c, self.p
        batch, length = tokens.shape
        if cache is None:
            cache = StaticCache(c.n_layers, batch, c.n_heads, c.d_head, p["embed"].dtype)
        cache_position = torch.arange(cache.length, cache.length + length)
        mask = torch.arange(SLOTS)[None] <= cache_position[:, None]
        if attention_mask is not None:
            mask = mask & F.pad(attention_mask, (0, SLOTS - attention_mask.shape[1]))[:, None, None]
        if positions is None:
            positions = cache_position
            if attention_mask is not None:
                positions = (attention_mask.long().cumsum(1) - 1).clamp(min=0)[:, cache.length :]
        x = F.embedding(tokens, p["embed"]) + F.embedding(positions, p["position_embed"])
        for block in self.h:
            x = block(x, cache, cache_position, mask)
        cache.length += length
        x = F.layer_norm(x, x.shape[-1:], p["final_norm.weight"], p["final_norm.bias"], c.norm_eps)
        return F.linear(x, p["embed"]), cache
