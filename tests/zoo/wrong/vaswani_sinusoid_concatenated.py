"""Sines in the first half and cosines in the second, as tensor2tensor wrote it, not interleaved."""

import numpy as np

framework = "numpy"
variant = "vaswani"


def timing_signal(positions, channels):
    scaled = np.asarray(positions)[..., None] * 10000.0 ** (-np.arange(0, channels, 2) / channels)
    sin, cos = np.sin(scaled), np.cos(scaled)
    return np.concatenate([sin, cos], axis=-1)  # WRONG


class Model:
    def __init__(self, config, params):
        self.c = config
        self.p = params

    def normalised(self, x, name):
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.c.norm_eps)
        return x * self.p[name + ".weight"] + self.p[name + ".bias"]

    def keys_values(self, y, name):
        shape = (*y.shape[:2], self.c.n_heads, -1)
        return tuple((y @ self.p[f"{name}.w_{c}"] + self.p[f"{name}.b_{c}"]).reshape(shape) for c in "kv")

    def attention(self, x, k, v, name, bias):
        q = (x @ self.p[name + ".w_q"] + self.p[name + ".b_q"]).reshape(*x.shape[:2], self.c.n_heads, -1)
        s = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(self.c.d_head) + bias
        s = s - s.max(-1, keepdims=True)
        s = np.exp(s) / np.exp(s).sum(-1, keepdims=True)
        z = np.einsum("bhqk,bkhd->bqhd", s, v).reshape(*x.shape[:2], -1)
        return z @ self.p[name + ".w_o"] + self.p[name + ".b_o"]

    def feed(self, x, name):
        hidden = x @ self.p[name + ".w_1"] + self.p[name + ".b_1"]
        return np.where(hidden > 0, hidden, 0) @ self.p[name + ".w_2"] + self.p[name + ".b_2"]

    def embedded(self, ids, positions):
        return self.p["embed"][ids] * np.sqrt(self.c.d_model) + timing_signal(positions, self.c.d_model)

    def encode(self, source):
        x = self.embedded(source, np.arange(source.shape[1]))
        for i in range(self.c.n_layers):
            n = f"encoder.layers.{i}."
            x = self.normalised(
                x + self.attention(x, *self.keys_values(x, n + "attention"), n + "attention", 0), n + "norm1"
            )
            x = self.normalised(x + self.feed(x, n + "ffn"), n + "norm2")
        return x

    def forward(self, tokens, attention_mask=None, positions=None, source=None, cache=None):
        memory = self.encode(source)
        old = 0 if cache is None else cache[0][0].shape[1]
        stop = old + tokens.shape[1]
        real = np.ones((tokens.shape[0], stop), dtype=bool) if attention_mask is None else attention_mask
        if positions is None:
            positions = np.maximum(real.cumsum(1) - 1, 0)[:, old:]
        bias = np.where(np.tri(stop, dtype=bool)[old:] & real[:, None, None, :], 0, -1e30)
        x, kept = self.embedded(tokens, positions), []
        for i in range(self.c.n_layers):
            n = f"decoder.layers.{i}."
            kv = self.keys_values(x, n + "attention")
            if cache is not None:
                kv = tuple(np.concatenate(pair, axis=1) for pair in zip(cache[i], kv, strict=True))
            kept.append(kv)
            u = self.normalised(x + self.attention(x, *kv, n + "attention", bias), n + "norm1")
            cross = self.attention(
                u, *self.keys_values(memory, n + "cross_attention"), n + "cross_attention", 0
            )
            c = self.normalised(u + cross, n + "norm2")
            x = self.normalised(c + self.feed(c, n + "ffn"), n + "norm3")
        return x @ self.p["embed"].T, kept
