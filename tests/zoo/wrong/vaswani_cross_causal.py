"""The causal mask covers cross-attention too: a target token reads no source token to its right."""

import numpy as np

framework = "numpy"
variant = "vaswani"


def probabilities(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def triangle(n, m):
    return np.arange(m)[None] <= np.arange(n)[:, None]


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def norm(self, x, name):
        mu, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mu) / np.sqrt(var + self.config.norm_eps) * self.params[name + ".weight"] + self.params[
            name + ".bias"
        ]

    def mha(self, x, y, name, visible, tap):
        c, p = self.config, self.params
        q = np.einsum("btd,dhe->bhte", x, p[name + "w_q"].reshape(c.d_model, c.n_heads, -1))
        k = np.einsum("btd,dhe->bhte", y, p[name + "w_k"].reshape(c.d_model, c.n_heads, -1))
        v = np.einsum("btd,dhe->bhte", y, p[name + "w_v"].reshape(c.d_model, c.n_heads, -1))
        q = q + p[name + "b_q"].reshape(c.n_heads, 1, -1)
        k = k + p[name + "b_k"].reshape(c.n_heads, 1, -1)
        v = v + p[name + "b_v"].reshape(c.n_heads, 1, -1)
        scores = q @ k.swapaxes(2, 3) / np.sqrt(c.d_head)
        weights = probabilities(np.where(visible, scores, -1e30))
        out = (
            np.einsum("bhqd,hdm->bqm", weights @ v, p[name + "w_o"].reshape(c.n_heads, -1, c.d_model))
            + p[name + "b_o"]
        )
        for label, tensor in (
            ("q", q),
            ("k", k),
            ("v", v),
            ("scores", scores),
            ("weights", weights),
            ("attn_out", out),
        ):
            tap(name.replace(".attention.", ".") + label, tensor)
        return out

    def mlp(self, x, name):
        h = x @ self.params[name + "w_1"] + self.params[name + "b_1"]
        return np.maximum(h, 0) @ self.params[name + "w_2"] + self.params[name + "b_2"]

    def embed(self, ids, positions):
        d = self.config.d_model
        x = self.params["embed"][ids] * d**0.5
        angle = np.expand_dims(positions, -1) * np.exp(-np.log(10000.0) * np.arange(0, d, 2) / d)
        x[..., 0::2] += np.sin(angle)
        x[..., 1::2] += np.cos(angle)
        return x

    def forward(self, tokens, attention_mask=None, positions=None, source=None, tap=None):
        tap = tap or (lambda name, tensor: None)
        S, T = source.shape[1], tokens.shape[1]
        memory = self.embed(source, np.arange(S))
        for i in range(self.config.n_layers):
            n = f"encoder.layers.{i}."
            memory = self.norm(memory + self.mha(memory, memory, n + "attention.", True, tap), n + "norm1")
            memory = self.norm(memory + self.mlp(memory, n + "ffn."), n + "norm2")
        real = np.ones(tokens.shape, dtype=bool) if attention_mask is None else attention_mask
        if positions is None:
            positions = np.maximum(real.cumsum(1) - 1, 0)
        x = self.embed(tokens, positions)
        for i in range(self.config.n_layers):
            n = f"decoder.layers.{i}."
            x = self.norm(
                x + self.mha(x, x, n + "attention.", triangle(T, T) & real[:, None, None], tap), n + "norm1"
            )
            tap(n + "u", x)
            cross = self.mha(x, memory, n + "cross_attention.", triangle(T, S), tap)  # WRONG
            x = self.norm(x + cross, n + "norm2")
            tap(n + "c", x)
            x = self.norm(x + self.mlp(x, n + "ffn."), n + "norm3")
            tap(n + "y", x)
        return x @ self.params["embed"].T
