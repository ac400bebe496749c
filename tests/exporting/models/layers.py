"""Decoders of PyTorch's own encoder layers, with boolean masks for SDPA, and with a cache that is handed out."""

import torch
from torch import nn
from torch.nn import functional as F


def sublayers(n_layer, n_embd, hidden, projections, bias):
    """The norms and linear maps of each layer; `projections` are those of attention, by name with their widths."""
    return nn.ModuleList(
        nn.ModuleDict(
            {
                "norm1": nn.LayerNorm(n_embd),
                "norm2": nn.LayerNorm(n_embd),
                **{name: nn.Linear(n_embd, width, bias) for name, width in projections.items()},
                "up": nn.Linear(n_embd, hidden, bias),
                "down": nn.Linear(hidden, n_embd, bias),
            }
        )
        for _ in range(n_layer)
    )


class OfLayers(nn.Module):
    """`torch.nn.TransformerEncoderLayer`, causal by a mask that is made for each length."""

    def __init__(self, vocab_size, n_embd, n_head, n_layer, hidden):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, n_embd)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(n_embd, n_head, hidden, dropout=0.1, batch_first=True, norm_first=True)
            for _ in range(n_layer)
        )
        self.norm, self.head = nn.LayerNorm(n_embd), nn.Linear(n_embd, vocab_size, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        places = torch.arange(ids.shape[1])
        hidden = places[:, None] < places[None, :]
        for layer in self.layers:
            x = layer(x, src_mask=hidden)
        return self.head(self.norm(x))


class Padded(nn.Module):
    """Without positions; a boolean mask of who reads whom, padding in it."""

    def __init__(self, vocab_size, n_embd, n_head, n_layer, hidden):
        super().__init__()
        self.heads = n_head
        self.embed = nn.Embedding(vocab_size, n_embd)
        self.layers = sublayers(n_layer, n_embd, hidden, {"qkv": 3 * n_embd, "out": n_embd}, bias=True)
        self.norm, self.head = nn.LayerNorm(n_embd), nn.Linear(n_embd, vocab_size, bias=False)

    def forward(self, ids, attention_mask):
        x = self.embed(ids)
        places = torch.arange(ids.shape[1])
        visible = (places[:, None] >= places[None, :]) & attention_mask.bool()[:, None, None, :]
        for layer in self.layers:
            q, k, v = (
                part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                for part in layer["qkv"](layer["norm1"](x)).chunk(3, -1)
            )
            z = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
            x = x + layer["out"](z.transpose(1, 2).flatten(2))
            x = x + layer["down"](F.relu(layer["up"](layer["norm2"](x))))
        return self.head(self.norm(x))


class Chapter(nn.Module):
    """Without positions and biases; its cache is a list of keys and values, given back."""

    def __init__(self, vocab_size, n_embd, n_head, n_layer, hidden):
        super().__init__()
        self.heads = n_head
        self.embed = nn.Embedding(vocab_size, n_embd)
        self.layers = sublayers(
            n_layer, n_embd, hidden, dict.fromkeys(("query", "key", "value", "out"), n_embd), bias=False
        )
        self.norm, self.head = nn.LayerNorm(n_embd), nn.Linear(n_embd, vocab_size, bias=False)

    def forward(self, ids, past=None):
        x, present = self.embed(ids), []
        for number, layer in enumerate(self.layers):
            normed = layer["norm1"](x)
            q, k, v = (
                layer[part](normed).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                for part in ("query", "key", "value")
            )
            if past is not None:
                k, v = torch.cat([past[number][0], k], 2), torch.cat([past[number][1], v], 2)
            present.append((k, v))
            here = torch.arange(k.shape[2])
            visible = here[None, :] <= here[k.shape[2] - q.shape[2] :, None]
            scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
            weights = scores.masked_fill(~visible, float("-inf")).softmax(-1)
            x = x + layer["out"]((weights @ v).transpose(1, 2).flatten(2))
            x = x + layer["down"](F.relu(layer["up"](layer["norm2"](x))))
        return self.head(self.norm(x)), present
