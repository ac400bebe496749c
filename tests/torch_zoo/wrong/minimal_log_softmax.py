"""The model ends in log_softmax; logits are asked for."""

import torch
import torch.nn.functional as F
from torch import nn

framework = "torch"
variant = "minimal"


class Generator(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.proj = nn.Linear(*weight.shape, bias=False)
        self.proj.weight.copy_(weight.T)

    def forward(self, x):
        return F.log_softmax(self.proj(x), dim=-1)  # WRONG


class Layer(nn.Module):
    def __init__(self, p, c):
        super().__init__()
        self.p, self.c = p, c
        self.norm1, self.norm2 = (self.norm(name) for name in ("norm1", "norm2"))

    def norm(self, name):
        norm = nn.LayerNorm(self.c.d_model, self.c.norm_eps)
        norm.load_state_dict({"weight": self.p[name + ".weight"], "bias": self.p[name + ".bias"]})
        return norm

    def forward(self, x):
        h, B, T = self.norm1(x), x.shape[0], x.shape[1]
        q, k, v = ((h @ self.p["attention.w_" + c]).view(B, T, self.c.n_heads, -1).transpose(1, 2) for c in "qkv")
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, -1)
        x = x + z @ self.p["attention.w_o"]
        return x + F.relu(self.norm2(x) @ self.p["ffn.w_1"]) @ self.p["ffn.w_2"]


class Model(nn.Module):
    def __init__(self, config, params):
        super().__init__()
        self.embed = nn.Embedding.from_pretrained(params["embed"])
        self.layers = nn.Sequential()
        for n in range(config.n_layers):
            p = {k.removeprefix(f"layers.{n}."): v for k, v in params.items() if k.startswith(f"layers.{n}.")}
            self.layers.append(Layer(p, config))
        self.norm = nn.LayerNorm(config.d_model, config.norm_eps)
        self.norm.load_state_dict({"weight": params["final_norm.weight"], "bias": params["final_norm.bias"]})
        self.generator = Generator(params["lm_head"])

    def forward(self, tokens):
        return self.generator(self.norm(self.layers(self.embed(tokens))))
