"""A decoder whose feed-forward network is as wide at every width of the model, and which turns neighbours."""

import torch
from torch import nn
from torch.nn import functional as F

HIDDEN = 40


def turned(x):
    length, width = x.shape[-2:]
    angles = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(0, width, 2) / width)
    cos, sin = angles.cos().to(x), angles.sin().to(x)
    a, b = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.proj = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, HIDDEN, bias=False), nn.Linear(HIDDEN, width, bias=False)

    def forward(self, x):
        h = self.ln_1(x)
        parts = (made(h).unflatten(-1, (self.heads, -1)).transpose(1, 2) for made in (self.query, self.key, self.value))
        q, k, v = parts
        z = F.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True)
        x = x + self.proj(z.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, vocab_size, n_embd, n_head, n_layer):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, n_embd)
        self.blocks = nn.ModuleList(Block(n_embd, n_head) for _ in range(n_layer))
        self.ln_f, self.head = nn.LayerNorm(n_embd), nn.Linear(n_embd, vocab_size, bias=False)

    def forward(self, idx):
        x = self.tokens(idx)
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))
