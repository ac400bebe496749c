"""The causal mask is [T, T] of the new tokens only and meets [T, past + T] scores in a later chunk."""

import numpy as np

framework = "numpy"
variant = "minimal"


def triangle(n):
    return np.triu(np.full((n, n), -1e30, dtype=np.float32), 1)


class Layer:
    def __init__(self, params, prefix, config):
        self.p = {k[len(prefix) :]: v for k, v in params.items() if k.startswith(prefix)}
        self.c = config

    def norm(self, x, which):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt(np.mean(x * x, -1, keepdims=True) + self.c.norm_eps)
        return x * self.p[which + ".weight"] + self.p[which + ".bias"]

    def attend(self, x, past, padding):
        split = (x.shape[0], x.shape[1], self.c.n_heads, -1)
        q, k, v = ((x @ self.p["attention.w_" + c]).reshape(split).swapaxes(1, 2) for c in "qkv")
        if past is not None:
            k, v = np.concatenate((past[0], k), 2), np.concatenate((past[1], v), 2)
        scores = q @ k.swapaxes(2, 3) / self.c.d_head**0.5
        scores = scores + triangle(x.shape[1])  # WRONG
        if padding is not None:
            scores = np.where(padding, scores, np.float32(-1e30))
        e = np.exp(scores - scores.max(-1, keepdims=True))
        z = e / e.sum(-1, keepdims=True) @ v
        return z.swapaxes(1, 2).reshape(x.shape[0], x.shape[1], -1) @ self.p["attention.w_o"], (k, v)

    def __call__(self, x, past, padding):
        a, kept = self.attend(self.norm(x, "norm1"), past, padding)
        x = x + a
        return x + np.maximum(self.norm(x, "norm2") @ self.p["ffn.w_1"], 0) @ self.p["ffn.w_2"], kept


class Model:
    def __init__(self, config, params):
        self.layers = [Layer(params, f"layers.{n}.", config) for n in range(config.n_layers)]
        self.out = Layer(params, "final_", config)
        self.embed, self.head = params["embed"], params["lm_head"]

    def forward(self, tokens, attention_mask=None, cache=None):
        x = self.embed[tokens]
        padding = None if attention_mask is None else attention_mask[:, None, None, :]
        cache = [None] * len(self.layers) if cache is None else cache
        kept = []
        for layer, past in zip(self.layers, cache, strict=True):
            x, pair = layer(x, past, padding)
            kept.append(pair)
        return self.out.norm(x, "norm") @ self.head, kept
