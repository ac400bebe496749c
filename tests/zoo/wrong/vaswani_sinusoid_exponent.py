"""The exponent uses the feature's own index, 2 * i, in place of its pair's, 2 * (i // 2)."""

import numpy as np

framework = "numpy"
variant = "vaswani"


def position_encoding(positions, d_model):
    i = np.arange(d_model)
    angle = np.expand_dims(positions, -1) / np.power(10000.0, 2 * i / d_model)  # WRONG
    return np.where(i % 2 == 0, np.sin(angle), np.cos(angle))


def layer_norm(x, weight, bias, eps):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return weight * (x - mean) / np.sqrt(variance + eps) + bias


class MultiHead:
    def __init__(self, params, name, heads):
        self.w = {c: params[f"{name}.w_{c}"] for c in "qkvo"}
        self.b = {c: params[f"{name}.b_{c}"] for c in "qkvo"}
        self.heads = heads

    def lin(self, c, x):
        return x @ self.w[c] + self.b[c]

    def __call__(self, x, y, mask):
        q, k, v = (
            np.stack(np.split(a, self.heads, -1), 1)
            for a in (self.lin("q", x), self.lin("k", y), self.lin("v", y))
        )
        s = np.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
        if mask is not None:
            s = np.where(mask, s, -1e30)
        s = np.exp(s - s.max(-1, keepdims=True))
        z = np.einsum("bhqk,bhkd->bhqd", s / s.sum(-1, keepdims=True), v)
        return self.lin("o", np.concatenate([z[:, h] for h in range(self.heads)], -1))


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def add_norm(self, x, out, name):
        return layer_norm(
            x + out, self.params[name + ".weight"], self.params[name + ".bias"], self.config.norm_eps
        )

    def ffn(self, x, name):
        p = self.params
        return np.maximum(x @ p[name + ".w_1"] + p[name + ".b_1"], 0) @ p[name + ".w_2"] + p[name + ".b_2"]

    def embed(self, ids, positions):
        d = self.config.d_model
        return self.params["embed"][ids] * d**0.5 + position_encoding(positions, d)

    def forward(self, tokens, attention_mask=None, positions=None, source=None, tap=None):
        tap = tap or (lambda name, tensor: None)
        p, heads = self.params, self.config.n_heads
        m = self.embed(source, np.arange(source.shape[1]))
        for i in range(self.config.n_layers):
            e = f"encoder.layers.{i}"
            tap(e + ".x", m)
            m = self.add_norm(m, MultiHead(p, e + ".attention", heads)(m, m, None), e + ".norm1")
            m = self.add_norm(m, self.ffn(m, e + ".ffn"), e + ".norm2")
            tap(e + ".y", m)
        n = tokens.shape[1]
        mask = np.tri(n, dtype=bool)[None, None]
        if attention_mask is not None:
            mask = mask & attention_mask[:, None, None]
            positions = np.maximum(np.cumsum(attention_mask, 1) - 1, 0) if positions is None else positions
        x = self.embed(tokens, np.arange(n) if positions is None else positions)
        for i in range(self.config.n_layers):
            d = f"decoder.layers.{i}"
            tap(d + ".x", x)
            x = self.add_norm(x, MultiHead(p, d + ".attention", heads)(x, x, mask), d + ".norm1")
            tap(d + ".u", x)
            x = self.add_norm(x, MultiHead(p, d + ".cross_attention", heads)(x, m, None), d + ".norm2")
            tap(d + ".c", x)
            x = self.add_norm(x, self.ffn(x, d + ".ffn"), d + ".norm3")
            tap(d + ".y", x)
        return x @ p["embed"].T
