"""The embeddings are not multiplied by sqrt(d_model): one line of section 3.4 that most readers skip."""

import numpy as np

framework = "numpy"
variant = "vaswani"


def sinusoid(positions, width):
    table = np.zeros((*positions.shape, width))
    angle = positions[..., None] / 10000 ** (np.arange(0, width, 2) / width)
    table[..., 0::2] = np.sin(angle)
    table[..., 1::2] = np.cos(angle)
    return table.astype(np.float32)


class Weights:
    def __init__(self, params, prefix=""):
        self.params, self.prefix = params, prefix

    def at(self, name):
        return Weights(self.params, f"{self.prefix}{name}.")

    def __getitem__(self, name):
        return self.params[self.prefix + name]


def norm(x, w, eps):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * w["weight"] + w["bias"]


def attend(x, memory, w, heads, visible):
    def split(a, letter):
        a = a @ w["w_" + letter] + w["b_" + letter]
        return a.reshape(*a.shape[:2], heads, -1).swapaxes(1, 2)

    q, k, v = split(x, "q"), split(memory, "k"), split(memory, "v")
    s = np.where(visible, q @ k.swapaxes(2, 3) / np.float32(q.shape[-1]) ** 0.5, np.float32(-1e30))
    p = np.exp(s - s.max(-1, keepdims=True))
    z = (p / p.sum(-1, keepdims=True) @ v).swapaxes(1, 2)
    return z.reshape(*x.shape[:2], -1) @ w["w_o"] + w["b_o"]


def feed_forward(x, w):
    return np.maximum(x @ w["w_1"] + w["b_1"], 0) @ w["w_2"] + w["b_2"]


class Model:
    def __init__(self, config, params):
        self.config, self.w = config, Weights(params)

    def embed(self, ids, positions):
        x = self.w["embed"][ids]  # WRONG
        return x + sinusoid(positions, self.config.d_model)

    def forward(self, tokens, attention_mask=None, positions=None, source=None):
        c = self.config
        everything = np.ones((1, 1, 1, 1), dtype=bool)
        memory = self.embed(source, np.arange(source.shape[1]))
        for i in range(c.n_layers):
            w = self.w.at(f"encoder.layers.{i}")
            memory = norm(
                memory + attend(memory, memory, w.at("attention"), c.n_heads, everything),
                w.at("norm1"),
                c.norm_eps,
            )
            memory = norm(memory + feed_forward(memory, w.at("ffn")), w.at("norm2"), c.norm_eps)
        t = tokens.shape[1]
        visible = np.tri(t, dtype=bool)[None, None]
        if positions is None:
            positions = np.arange(t) if attention_mask is None else (attention_mask.cumsum(1) - 1).clip(0)
        if attention_mask is not None:
            visible = visible & attention_mask[:, None, None]
        x = self.embed(tokens, positions)
        for i in range(c.n_layers):
            w = self.w.at(f"decoder.layers.{i}")
            x = norm(x + attend(x, x, w.at("attention"), c.n_heads, visible), w.at("norm1"), c.norm_eps)
            x = norm(
                x + attend(x, memory, w.at("cross_attention"), c.n_heads, everything),
                w.at("norm2"),
                c.norm_eps,
            )
            x = norm(x + feed_forward(x, w.at("ffn")), w.at("norm3"), c.norm_eps)
        return x @ self.w["embed"].T
