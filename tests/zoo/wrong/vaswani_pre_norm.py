"""Norms in front of each sub-layer, today's habit, under a post-norm model's weights."""

import numpy as np

framework = "numpy"
variant = "vaswani"


def standardised(x, eps):
    x = x - x.mean(axis=-1, keepdims=True)
    return x / np.sqrt(x.var(axis=-1, keepdims=True) + eps)


class Sublayers:
    def __init__(self, params, prefix, config):
        self.params, self.prefix, self.config = params, prefix, config

    def get(self, name):
        return self.params[self.prefix + name]

    def norm(self, x, name):
        return standardised(x, self.config.norm_eps) * self.get(name + ".weight") + self.get(name + ".bias")

    def add(self, x, name, f):
        return x + f(self.norm(x, name))  # WRONG

    def linear(self, x, module, letter):
        return x @ self.get(f"{module}.w_{letter}") + self.get(f"{module}.b_{letter}")

    def heads(self, x, module, letter):
        y = self.linear(x, module, letter)
        return y.reshape(*y.shape[:2], self.config.n_heads, -1).transpose(0, 2, 1, 3)

    def attend(self, x, y, module, hidden):
        q, k, v = self.heads(x, module, "q"), self.heads(y, module, "k"), self.heads(y, module, "v")
        s = q @ k.transpose(0, 1, 3, 2) / np.sqrt(self.config.d_head)
        s = np.where(hidden, -1e30, s)
        p = np.exp(s - s.max(-1, keepdims=True))
        z = (p / p.sum(-1, keepdims=True)) @ v
        return self.linear(z.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1), module, "o")

    def feed(self, x):
        return self.linear(np.clip(self.linear(x, "ffn", "1"), 0, None), "ffn", "2")


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def embed(self, ids, positions):
        d = self.config.d_model
        angle = positions[..., None] * 10000.0 ** (-(np.arange(d) // 2) * 2 / d)
        wave = np.where(np.arange(d) % 2, np.cos(angle), np.sin(angle))
        return self.params["embed"][ids] * np.sqrt(d) + wave

    def forward(self, tokens, attention_mask=None, positions=None, source=None):
        c = self.config
        m = self.embed(source, np.arange(source.shape[1]))
        for i in range(c.n_layers):
            s = Sublayers(self.params, f"encoder.layers.{i}.", c)
            m = s.add(m, "norm1", lambda h, s=s: s.attend(h, h, "attention", False))
            m = s.add(m, "norm2", s.feed)
        n = tokens.shape[1]
        hidden = ~np.tri(n, dtype=bool)
        if attention_mask is not None:
            hidden = hidden | ~attention_mask[:, None, None, :]
        if positions is None:
            positions = np.arange(n)
            if attention_mask is not None:
                positions = np.maximum(attention_mask.cumsum(1) - 1, 0)
        x = self.embed(tokens, positions)
        for i in range(c.n_layers):
            s = Sublayers(self.params, f"decoder.layers.{i}.", c)
            x = s.add(x, "norm1", lambda h, s=s: s.attend(h, h, "attention", hidden))
            x = s.add(x, "norm2", lambda h, s=s: s.attend(h, m, "cross_attention", False))
            x = s.add(x, "norm3", s.feed)
        return x @ self.params["embed"].T
