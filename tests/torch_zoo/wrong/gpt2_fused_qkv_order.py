"""The fused projection is loaded as q, k, v and split as k, q, v."""

import torch
import torch.nn.functional as F
from torch import nn

framework = "torch"
variant = "gpt2"


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n_head = c.n_heads
        self.ln_1, self.ln_2 = nn.LayerNorm(c.d_model, c.norm_eps), nn.LayerNorm(c.d_model, c.norm_eps)
        self.c_attn, self.attn_proj = nn.Linear(c.d_model, 3 * c.d_model), nn.Linear(c.d_model, c.d_model)
        self.c_fc, self.mlp_proj = nn.Linear(c.d_model, c.d_ff), nn.Linear(c.d_ff, c.d_model)

    def attention(self, x):
        B, T, C = x.size()
        qkv = self.c_attn(x)
        k, q, v = qkv.split(C, dim=2)  # WRONG
        q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.attn_proj(y.transpose(1, 2).reshape(B, T, C))

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(c.vocab_size, c.d_model), nn.Embedding(c.max_positions, c.d_model)
        self.h = nn.ModuleList(Block(c) for _ in range(c.n_layers))
        self.ln_f = nn.LayerNorm(c.d_model, c.norm_eps)

    def forward(self, idx):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


class Model:
    def __init__(self, config, params):
        p = params
        weights = {"wte.weight": p["embed"], "wpe.weight": p["position_embed"]}
        for mine, name in ("ln_f", "final_norm"), *(
            (f"h.{i}.ln_{j}", f"layers.{i}.norm{j}") for i in range(config.n_layers) for j in (1, 2)
        ):
            weights |= {mine + ".weight": p[name + ".weight"], mine + ".bias": p[name + ".bias"]}
        for i in range(config.n_layers):
            a, f = f"layers.{i}.attention.", f"layers.{i}.ffn."
            for mine, w, b in (
                ("c_attn", torch.cat([p[a + "w_" + c] for c in "qkv"], 1), torch.cat([p[a + "b_" + c] for c in "qkv"])),
                ("attn_proj", p[a + "w_o"], p[a + "b_o"]),
                ("c_fc", p[f + "w_1"], p[f + "b_1"]),
                ("mlp_proj", p[f + "w_2"], p[f + "b_2"]),
            ):
                weights |= {f"h.{i}.{mine}.weight": w.T, f"h.{i}.{mine}.bias": b}
        self.model = GPT2(config)
        self.model.load_state_dict(weights)
        self.model.eval()

    def forward(self, tokens):
        return self.model(tokens)
