"""The encoding of position 0 is added to every decoded token: pe[:, :x.size(1)] once x is one long."""

import numpy as np

framework = "numpy"
variant = "vaswani"


class PositionalEncoding:
    def __init__(self, d):
        self.d = d

    def __call__(self, positions):
        table = np.empty((*positions.shape, self.d), dtype=np.float32)
        for i in range(0, self.d, 2):
            table[..., i] = np.sin(positions / 10000 ** (i / self.d))
            table[..., i + 1 :][..., :1] = np.cos(positions / 10000 ** (i / self.d))[..., None]
        return table


def norm(x, gain, shift, eps):
    x = x - x.mean(-1, keepdims=True)
    return gain * (x / np.sqrt(np.square(x).mean(-1, keepdims=True) + eps)) + shift


def attend(q, k, v, keep):
    s = np.einsum("bhqd,bhkd->bhqk", q, k) / np.float32(q.shape[-1]) ** 0.5
    s = s if keep is None else np.where(keep, s, np.float32(-1e30))
    s = np.exp(s - s.max(-1, keepdims=True))
    z = np.einsum("bhqk,bhkd->bqhd", s / s.sum(-1, keepdims=True), v)
    return z.reshape(*z.shape[:2], -1)


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params
        self.encoding = PositionalEncoding(config.d_model)

    def heads(self, x, name):
        w, b = self.params[name.replace("?", "w")], self.params[name.replace("?", "b")]
        return (x @ w + b).reshape(*x.shape[:2], self.config.n_heads, -1).swapaxes(1, 2)

    def out(self, z, name):
        return z @ self.params[name + ".w_o"] + self.params[name + ".b_o"]

    def after(self, x, name):
        return norm(x, self.params[name + ".weight"], self.params[name + ".bias"], self.config.norm_eps)

    def mlp(self, x, name):
        p = self.params
        return np.maximum(x @ p[name + ".w_1"] + p[name + ".b_1"], 0) @ p[name + ".w_2"] + p[name + ".b_2"]

    def encode(self, source):
        scale = np.float32(self.config.d_model**0.5)
        m = self.params["embed"][source] * scale + self.encoding(np.arange(source.shape[1]))
        for i in range(self.config.n_layers):
            n = f"encoder.layers.{i}"
            q, k, v = (self.heads(m, f"{n}.attention.?_{c}") for c in "qkv")
            m = self.after(m + self.out(attend(q, k, v, None), n + ".attention"), n + ".norm1")
            m = self.after(m + self.mlp(m, n + ".ffn"), n + ".norm2")
        return m

    def forward(self, tokens, attention_mask=None, positions=None, source=None, cache=None):
        m = self.encode(source)
        past = 0 if cache is None else cache[0][0].shape[2]
        t = tokens.shape[1]
        keep = np.tri(t, past + t, past, dtype=bool)
        if positions is None:
            positions = np.arange(t)  # WRONG
            if attention_mask is not None:
                positions = np.maximum(attention_mask.cumsum(1) - 1, 0)[:, past:]
        if attention_mask is not None:
            keep = keep & attention_mask[:, None, None, :]
        x = self.params["embed"][tokens] * np.float32(self.config.d_model**0.5) + self.encoding(positions)
        kept = []
        for i in range(self.config.n_layers):
            n = f"decoder.layers.{i}"
            q, k, v = (self.heads(x, f"{n}.attention.?_{c}") for c in "qkv")
            if cache is not None:
                k, v = np.concatenate([cache[i][0], k], axis=2), np.concatenate([cache[i][1], v], axis=2)
            kept.append((k, v))
            x = self.after(x + self.out(attend(q, k, v, keep), n + ".attention"), n + ".norm1")
            k, v = (self.heads(m, f"{n}.cross_attention.?_{c}") for c in "kv")
            z = attend(self.heads(x, n + ".cross_attention.?_q"), k, v, None)
            x = self.after(x + self.out(z, n + ".cross_attention"), n + ".norm2")
            x = self.after(x + self.mlp(x, n + ".ffn"), n + ".norm3")
        return x @ self.params["embed"].T, kept
