"""The minimal structure in einsum, residuals added in place to a copy, an additive mask."""

import torch
from torch import nn

framework = "torch"
dtype = ["float32", "bfloat16"]
variant = "minimal"


class Attention(nn.Module):
    def __init__(self, params, heads, d_head):
        super().__init__()
        self.wq = params["w_q"].unflatten(1, (heads, d_head))
        self.wk = params["w_k"].unflatten(1, (heads, d_head))
        self.wv = params["w_v"].unflatten(1, (heads, -1))
        self.wo = params["w_o"].unflatten(0, (heads, -1))

    def forward(self, x, bias):
        q = torch.einsum("btd,dhe->bhte", x, self.wq)
        k = torch.einsum("bsd,dhe->bhse", x, self.wk)
        v = torch.einsum("bsd,dhe->bhse", x, self.wv)
        scores = torch.einsum("bhte,bhse->bhts", q, k).div_(q.size(-1) ** 0.5)
        p = scores.add_(bias).softmax(-1)
        return torch.einsum("bhts,bhse,hed->btd", p, v, self.wo)


class Block(nn.Module):
    def __init__(self, params, config):
        super().__init__()
        self.attention = Attention(
            {k[10:]: v for k, v in params.items() if k.startswith("attention.")},
            config.n_heads,
            config.d_head,
        )
        self.p, self.eps = params, config.norm_eps

    def norm(self, x, name):
        weight = self.p[name + ".weight"]
        return nn.functional.layer_norm(x, weight.shape, weight, self.p[name + ".bias"], self.eps)

    def forward(self, x, bias):
        stream = x.clone()
        stream += self.attention(self.norm(stream, "norm1"), bias)
        hidden = self.norm(stream, "norm2") @ self.p["ffn.w_1"]
        stream += hidden.relu_() @ self.p["ffn.w_2"]
        return stream


def bias_of(length, attention_mask, dtype):
    seen = torch.ones(length, length, dtype=torch.bool).tril()[None, None]
    if attention_mask is not None:
        seen = seen & attention_mask[:, None, None]
    return torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, torch.finfo(dtype).min / 2)


def block(x, params, config, attention_mask=None):
    return Block(params, config)(x, bias_of(x.shape[1], attention_mask, x.dtype))


class Model(nn.Module):
    def __init__(self, config, params):
        super().__init__()
        self.params, self.eps = params, config.norm_eps
        self.blocks = nn.ModuleList()
        for n in range(config.n_layers):
            mine = {k.split(".", 2)[2]: v for k, v in params.items() if k.startswith(f"layers.{n}.")}
            self.blocks.append(Block(mine, config))

    def forward(self, tokens, attention_mask=None):
        x = self.params["embed"][tokens]
        bias = bias_of(tokens.shape[1], attention_mask, x.dtype)
        for layer in self.blocks:
            x = layer(x, bias)
        w, b = self.params["final_norm.weight"], self.params["final_norm.bias"]
        return nn.functional.layer_norm(x, w.shape, w, b, self.eps) @ self.params["lm_head"]
