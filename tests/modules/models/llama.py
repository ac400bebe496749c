"""A Llama-like model as people write it for inference: interleaved RoPE, and its cache in one of several ways."""

import torch
from torch import nn
from torch.nn import functional as F


class Norm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * scale).to(x.dtype) * (1 + self.gain)


def rotated(x, positions, theta):
    """x: [batch, head, token, width], neighbours turned together."""
    width = x.shape[-1]
    rate = theta ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)
    angle = positions[:, None, :, None].float() * rate
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)
    return turned.flatten(-2).to(x.dtype)


class Layer(nn.Module):
    def __init__(self, dim, heads, kv_heads, width, hidden, eps, theta):
        super().__init__()
        self.heads, self.kv_heads, self.width, self.theta = heads, kv_heads, width, theta
        self.attn_norm, self.mlp_norm = Norm(dim, eps), Norm(dim, eps)
        self.wqkv = nn.Linear(dim, (heads + 2 * kv_heads) * width, bias=False)
        self.wo = nn.Linear(heads * width, dim, bias=False)
        self.gate_up = nn.Linear(dim, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x, positions, real, past):
        batch, length, _ = x.shape
        qkv = self.wqkv(self.attn_norm(x)).view(batch, length, self.kv_heads, -1, self.width)
        q, k, v = qkv.split([self.heads // self.kv_heads, 1, 1], dim=3)
        q = q.flatten(2, 3).transpose(1, 2)
        k, v = k.squeeze(3).transpose(1, 2), v.squeeze(3).transpose(1, 2)
        q, k = rotated(q, positions, self.theta), rotated(k, positions, self.theta)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        total = k.shape[2]
        mask = torch.ones(length, total, dtype=torch.bool).tril(total - length)[None, None]
        if real is not None:
            mask = mask & real[:, None, None, :]
        z = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        x = x + self.wo(z.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up), (k, v)


class Body(nn.Module):
    def __init__(self, vocab, dim, layers, heads, kv_heads, width, hidden, eps=1e-5, theta=10000.0):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(
            Layer(dim, heads, kv_heads, width, hidden, eps, theta) for _ in range(layers)
        )
        self.norm = Norm(dim, eps)
        self.head = nn.Linear(dim, vocab, bias=False)

    def run(self, tokens, positions, real, pasts):
        x = self.embed(tokens)
        kept = []
        for layer, past in zip(self.layers, pasts or [None] * len(self.layers)):
            x, pair = layer(x, positions, real, past)
            kept.append(pair)
        return self.head(self.norm(x)), kept


def counted(tokens, start):
    return torch.arange(start, start + tokens.shape[1]).expand(tokens.shape)


class Returned(Body):
    """The cache is returned, and passed back."""

    def forward(self, tokens, positions=None, real=None, past=None):
        start = past[0][0].shape[2] if past is not None else 0
        positions = counted(tokens, start) if positions is None else positions
        logits, kept = self.run(tokens, positions, real, past)
        return {"logits": logits, "past": kept}


class Store:
    """A cache object that is changed in place."""

    def __init__(self):
        self.pairs = None


class InPlace(Body):
    def forward(self, tokens, positions=None, real=None, store=None):
        start = store.pairs[0][0].shape[2] if store is not None and store.pairs else 0
        positions = counted(tokens, start) if positions is None else positions
        logits, kept = self.run(tokens, positions, real, store.pairs if store is not None else None)
        if store is not None:
            store.pairs = kept
        return logits


class Inside(Body):
    """The cache is in the module, and begun anew by a method."""

    pairs = None

    def reset(self):
        self.pairs = None

    def forward(self, tokens):
        start = self.pairs[0][0].shape[2] if self.pairs else 0
        logits, self.pairs = self.run(tokens, counted(tokens, start), None, self.pairs)
        return logits


class Started(Body):
    """The cache is in the module; an argument says how many tokens it holds. Only the last logits come back."""

    pairs = None

    def forward(self, tokens, start_pos):
        pairs = [(k[:, :, :start_pos], v[:, :, :start_pos]) for k, v in self.pairs] if start_pos else None
        logits, self.pairs = self.run(tokens, counted(tokens, start_pos), None, pairs)
        return logits[:, -1]
