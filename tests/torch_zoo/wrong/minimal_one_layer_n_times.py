"""[layer] * n is one layer n times: the weights loaded last are everybody's."""

import torch.nn.functional as F
from torch import nn

framework = "torch"
variant = "minimal"


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c.n_heads
        self.norm1, self.norm2 = nn.LayerNorm(c.d_model, c.norm_eps), nn.LayerNorm(c.d_model, c.norm_eps)
        self.q = nn.Linear(c.d_model, c.n_heads * c.d_head, bias=False)
        self.k = nn.Linear(c.d_model, c.n_heads * c.d_head, bias=False)
        self.v = nn.Linear(c.d_model, c.n_heads * c.d_value, bias=False)
        self.o = nn.Linear(c.n_heads * c.d_value, c.d_model, bias=False)
        self.up = nn.Linear(c.d_model, c.d_ff, bias=False)
        self.down = nn.Linear(c.d_ff, c.d_model, bias=False)

    def forward(self, x):
        h = self.norm1(x)
        q, k, v = (f(h).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.relu(self.up(self.norm2(x))))


NAMES = {"q": "attention.w_q", "k": "attention.w_k", "v": "attention.w_v", "o": "attention.w_o"}
NAMES |= {"up": "ffn.w_1", "down": "ffn.w_2"}


class Model(nn.Module):
    def __init__(self, config, params):
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.d_model)
        self.layers = nn.ModuleList([Layer(config)] * config.n_layers)  # WRONG
        self.norm = nn.LayerNorm(config.d_model, config.norm_eps)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        state = {"embed.weight": params["embed"], "head.weight": params["lm_head"].T}
        state |= {"norm." + k: params["final_norm." + k] for k in ("weight", "bias")}
        for n in range(config.n_layers):
            state |= {f"layers.{n}.{m}.weight": params[f"layers.{n}.{name}"].T for m, name in NAMES.items()}
            for norm in ("norm1", "norm2"):
                state |= {f"layers.{n}.{norm}.{k}": params[f"layers.{n}.{norm}.{k}"] for k in ("weight", "bias")}
        self.load_state_dict(state)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))
