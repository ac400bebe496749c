"""The encoder-decoder of 2017 with time first: [T, B, D] inside, as fairseq has it.

Heads are folded into the batch ([B*H, T, Dh]). The source is encoded once: the cache
keeps each layer's keys and values of the memory, and later calls ignore `source`.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = "vaswani"


def layer_norm(x, weight, bias, eps):
    mean, variance = np.mean(x, -1), np.var(x, -1)
    normed = (x - mean[..., None]) / np.sqrt(variance + eps)[..., None]
    return normed * weight + bias


def sinusoid(start, length, d_model, dtype):
    table = np.zeros((length, d_model), dtype)
    for t in range(length):
        for i in range(d_model):
            angle = (start + t) / 10000 ** (2 * (i // 2) / d_model)
            table[t, i] = np.sin(angle) if i % 2 == 0 else np.cos(angle)
    return table


class Model:
    def __init__(self, config, params):
        self.c, self.p = config, params

    def linear(self, x, name, suffix):
        return x @ self.p[f"{name}w_{suffix}"] + self.p[f"{name}b_{suffix}"]

    def norm(self, x, name):
        weight, bias = self.p[name + ".weight"], self.p[name + ".bias"]
        return layer_norm(x, weight, bias, self.c.norm_eps)

    def embed(self, tokens, start=0):
        tokens = tokens.T  # [T, B]
        x = self.p["embed"][tokens] * self.c.d_model**0.5
        waves = sinusoid(start, len(tokens), self.c.d_model, x.dtype)
        return x + waves[:, None, :]

    def fold(self, x, n_heads):
        """[T, B, heads * Dh] -> [B*H, T, Dh]."""
        time, batch, _ = x.shape
        x = x.reshape(time, batch, n_heads, -1)
        x = x.repeat(self.c.n_heads // n_heads, axis=2)
        return x.reshape(time, batch * self.c.n_heads, -1).swapaxes(0, 1)

    def keys_values(self, x, name):
        k = self.fold(self.linear(x, name, "k"), self.c.n_kv_heads)
        v = self.fold(self.linear(x, name, "v"), self.c.n_kv_heads)
        return k, v

    def attend(self, x, k, v, name, causal):
        time, batch, _ = x.shape
        q = self.fold(self.linear(x, name, "q"), self.c.n_heads) / self.c.d_head**0.5
        weights = q @ k.swapaxes(1, 2)
        if causal:
            past = k.shape[1] - time
            for t in range(time):
                weights[:, t, past + t + 1 :] = -np.inf
        weights -= weights.max(-1, keepdims=True)
        np.exp(weights, weights)
        weights /= weights.sum(-1, keepdims=True)
        z = (weights @ v).swapaxes(0, 1).reshape(time, batch, -1)
        return self.linear(z, name, "o")

    def ffn(self, x, name):
        hidden = self.linear(x, name, "1")
        return self.linear(np.maximum(hidden, 0, out=hidden), name, "2")

    def encode(self, source):
        x = self.embed(source)
        for n in range(self.c.n_layers):
            name = f"encoder.layers.{n}."
            k, v = self.keys_values(x, name + "attention.")
            out = self.attend(x, k, v, name + "attention.", causal=False)
            x = self.norm(x + out, name + "norm1")
            x = self.norm(x + self.ffn(x, name + "ffn."), name + "norm2")
        return x

    def forward(self, tokens, source, cache=None):
        if cache is None:
            memory = self.encode(source)
            cache = []
            for n in range(self.c.n_layers):
                name = f"decoder.layers.{n}.cross_attention."
                layer = {"cross": self.keys_values(memory, name), "k": None, "v": None}
                cache.append(layer)
        past = 0 if cache[0]["k"] is None else cache[0]["k"].shape[1]
        x = self.embed(tokens, start=past)
        for n, layer in enumerate(cache):
            name = f"decoder.layers.{n}."
            k, v = self.keys_values(x, name + "attention.")
            if past:
                k = np.concatenate([layer["k"], k], axis=1)
                v = np.concatenate([layer["v"], v], axis=1)
            layer["k"], layer["v"] = k, v
            out = self.attend(x, k, v, name + "attention.", causal=True)
            x = self.norm(x + out, name + "norm1")
            k, v = layer["cross"]
            out = self.attend(x, k, v, name + "cross_attention.", causal=False)
            x = self.norm(x + out, name + "norm2")
            x = self.norm(x + self.ffn(x, name + "ffn."), name + "norm3")
        return (x @ self.p["embed"].T).swapaxes(0, 1), cache
