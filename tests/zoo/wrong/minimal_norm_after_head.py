"""Normalises the logits instead of the stream: norm and head stand in the wrong order."""

import numpy as np

framework = "numpy"
variant = "minimal"


def zscore(a, eps):
    a = a - a.mean(axis=-1, keepdims=True)
    return a / np.sqrt(np.square(a).mean(axis=-1, keepdims=True) + eps)


def attend(x, weights, heads, scale, blocked):
    wq, wk, wv, wo = weights
    out = np.zeros_like(x)
    for wqh, wkh, wvh, woh in zip(
        np.split(wq, heads, 1),
        np.split(wk, heads, 1),
        np.split(wv, heads, 1),
        np.split(wo, heads, 0),
        strict=True,
    ):
        s = (x @ wqh) @ (x @ wkh).transpose(0, 2, 1) * scale
        s[np.broadcast_to(blocked, s.shape)] = -1e30
        a = np.exp(s - s.max(-1, keepdims=True))
        out += (a / a.sum(-1, keepdims=True)) @ (x @ wvh) @ woh
    return out


class Model:
    def __init__(self, config, params):
        self.eps, self.heads = config.norm_eps, config.n_heads
        self.scale, self.depth = config.d_head**-0.5, config.n_layers
        self.get = params.__getitem__

    def affine(self, x, name):
        return zscore(x, self.eps) * self.get(name + ".weight") + self.get(name + ".bias")

    def forward(self, tokens, attention_mask=None):
        get, n = self.get, tokens.shape[1]
        blocked = np.triu(np.ones((1, n, n), dtype=bool), 1)
        if attention_mask is not None:
            blocked = blocked | ~attention_mask[:, None, :]
        x = get("embed")[tokens]
        for i in range(self.depth):
            weights = [get(f"layers.{i}.attention.w_{c}") for c in "qkvo"]
            x = x + attend(self.affine(x, f"layers.{i}.norm1"), weights, self.heads, self.scale, blocked)
            inner = self.affine(x, f"layers.{i}.norm2") @ get(f"layers.{i}.ffn.w_1")
            x = x + np.where(inner > 0, inner, 0) @ get(f"layers.{i}.ffn.w_2")
        return zscore(x @ get("lm_head"), self.eps)  # WRONG
