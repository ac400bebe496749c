"""The encoder-decoder of 2017 that computes in float64 and returns float64.

It declares float32, so its parameters arrive as float32; a higher output dtype than
declared is accepted. It has no cache: every call decodes the whole target.
"""

import numpy as np

framework = "numpy"
dtype = "float32"
variant = "vaswani"


def softmax(x, axis):
    exponentials = np.exp(np.float64(x) - np.max(x, axis=axis, keepdims=True))
    return exponentials / np.sum(exponentials, axis=axis, keepdims=True)


def layer_norm(x, weight, bias, eps):
    x = x.astype(np.float64)
    variance, mean = x.var(axis=-1, keepdims=True), x.mean(axis=-1, keepdims=True)
    return (x - mean) * (variance + eps) ** -0.5 * weight + bias


def ffn(x, w_1, b_1, w_2, b_2):
    x, w_1, b_1, w_2, b_2 = (np.asarray(a, np.float64) for a in (x, w_1, b_1, w_2, b_2))
    return np.maximum(x @ w_1 + b_1, 0.0) @ w_2 + b_2


def position_encoding(length, d_model):
    table = np.zeros((length, d_model))
    frequency = np.exp(-np.log(10000.0) * np.arange(0, d_model, 2) / d_model)
    angle = np.outer(np.arange(length), frequency)
    table[:, 0::2] = np.sin(angle)
    table[:, 1::2] = np.cos(angle)[:, : d_model // 2]
    return table


class Model:
    def __init__(self, config, params):
        self.config = config
        self.params = {name: p.astype(np.float64) for name, p in params.items()}

    def attention(self, queries, memory, name, causal):
        c, p = self.config, self.params

        def heads(x, letter, count):
            x = x @ p[name + ".w_" + letter] + p[name + ".b_" + letter]
            heads = np.stack(np.split(x, count, axis=-1), axis=1)
            return heads.repeat(c.n_heads // count, axis=1)

        q = heads(queries, "q", c.n_heads)
        k, v = heads(memory, "k", c.n_kv_heads), heads(memory, "v", c.n_kv_heads)
        scores = q @ k.swapaxes(-2, -1) / np.sqrt(c.d_head)
        if causal:
            future = np.triu_indices(scores.shape[-2], k=1)
            scores[:, :, future[0], future[1]] = -np.inf
        z = softmax(scores, -1) @ v
        concat = np.concatenate(list(z.swapaxes(0, 1)), axis=-1)
        return concat @ p[name + ".w_o"] + p[name + ".b_o"]

    def norm(self, x, name):
        weight, bias = self.params[name + ".weight"], self.params[name + ".bias"]
        return layer_norm(x, weight, bias, self.config.norm_eps)

    def ffn(self, x, name):
        return ffn(x, *(self.params[f"{name}.{w}"] for w in ("w_1", "b_1", "w_2", "b_2")))

    def embed(self, tokens):
        d_model = self.config.d_model
        embedded = self.params["embed"][tokens] * np.sqrt(d_model)
        return embedded + position_encoding(tokens.shape[1], d_model)

    def forward(self, tokens, source):
        memory = self.embed(source)
        for n in range(self.config.n_layers):
            name = f"encoder.layers.{n}."
            out = self.attention(memory, memory, name + "attention", causal=False)
            memory = self.norm(memory + out, name + "norm1")
            memory = self.norm(memory + self.ffn(memory, name + "ffn"), name + "norm2")
        x = self.embed(tokens)
        for n in range(self.config.n_layers):
            name = f"decoder.layers.{n}."
            out = self.attention(x, x, name + "attention", causal=True)
            x = self.norm(x + out, name + "norm1")
            out = self.attention(x, memory, name + "cross_attention", causal=False)
            x = self.norm(x + out, name + "norm2")
            x = self.norm(x + self.ffn(x, name + "ffn"), name + "norm3")
        return x @ self.params["embed"].T
