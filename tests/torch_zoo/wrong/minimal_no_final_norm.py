"""The last norm is missing before the head."""

import torch
from torch import nn
from torch.nn import functional as F

framework = "torch"
variant = "minimal"


class Decoder(nn.Module):
    def __init__(self, config, params, n):
        super().__init__()
        self.heads, self.eps = config.n_heads, config.norm_eps
        for key, value in params.items():
            if key.startswith(f"layers.{n}."):
                self.register_buffer(key.split(".", 2)[2].replace(".", "_"), value)

    def forward(self, x):
        h = F.layer_norm(x, x.shape[-1:], self.norm1_weight, self.norm1_bias, self.eps)
        q, k, v = (h @ w for w in (self.attention_w_q, self.attention_w_k, self.attention_w_v))
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(-2, -3) for t in (q, k, v))
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2) @ self.attention_w_o
        h = F.layer_norm(x, x.shape[-1:], self.norm2_weight, self.norm2_bias, self.eps)
        return x + F.relu(h @ self.ffn_w_1) @ self.ffn_w_2


class Model(nn.Module):
    def __init__(self, config, params):
        super().__init__()
        self.register_buffer("embed", params["embed"])
        self.register_buffer("lm_head", params["lm_head"])
        self.layers = nn.ModuleList(Decoder(config, params, n) for n in range(config.n_layers))

    def forward(self, tokens):
        x = F.embedding(tokens, self.embed)
        for layer in self.layers:
            x = layer(x)
        return torch.matmul(x, self.lm_head)  # WRONG
