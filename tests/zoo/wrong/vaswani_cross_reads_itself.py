"""Cross-attention takes keys and values from the decoder's own stream; the source is never read."""

import numpy as np

framework = "numpy"
variant = "vaswani"


def norm(x, p, name, eps):
    m = x.mean(-1, keepdims=True)
    return (x - m) / np.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + eps) * p[name + ".weight"] + p[
        name + ".bias"
    ]


def multi_head(query, key, value, p, name, heads, mask=None):
    b = query.shape[0]
    q = (query @ p[name + ".w_q"] + p[name + ".b_q"]).reshape(
        b, -1, heads, p[name + ".w_q"].shape[1] // heads
    )
    k = (key @ p[name + ".w_k"] + p[name + ".b_k"]).reshape(b, -1, heads, q.shape[-1])
    v = (value @ p[name + ".w_v"] + p[name + ".b_v"]).reshape(b, k.shape[1], heads, -1)
    s = np.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    s = s if mask is None else np.where(mask, s, -1e30)
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    z = np.einsum("bhqk,bkhd->bqhd", w, v).reshape(b, query.shape[1], -1)
    return z @ p[name + ".w_o"] + p[name + ".b_o"]


def relu_mlp(x, p, name):
    h = np.maximum(x @ p[name + ".w_1"] + p[name + ".b_1"], 0)
    return h @ p[name + ".w_2"] + p[name + ".b_2"]


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def embed(self, ids, at):
        d = self.config.d_model
        pair = np.arange(d) // 2
        phase = np.asarray(at)[..., None] / 10000 ** (2 * pair / d) + np.where(np.arange(d) % 2, np.pi / 2, 0)
        return self.params["embed"][ids] * d**0.5 + np.sin(phase)

    def decoder_layer(self, x, memory, name, mask, tap):
        p, h, eps = self.params, self.config.n_heads, self.config.norm_eps
        tap(name + "x", x)
        u = norm(x + multi_head(x, x, x, p, name + "attention", h, mask), p, name + "norm1", eps)
        tap(name + "u", u)
        cross = multi_head(u, u, u, p, name + "cross_attention", h)  # WRONG
        tap(name + "cross_attention.attn_out", cross)
        c = norm(u + cross, p, name + "norm2", eps)
        tap(name + "c", c)
        y = norm(c + relu_mlp(c, p, name + "ffn"), p, name + "norm3", eps)
        tap(name + "y", y)
        return y

    def forward(self, tokens, attention_mask=None, positions=None, source=None, tap=None):
        tap = tap or (lambda name, tensor: None)
        c, p = self.config, self.params
        m = self.embed(source, np.arange(source.shape[1]))
        for i in range(c.n_layers):
            e = f"encoder.layers.{i}."
            m = norm(m + multi_head(m, m, m, p, e + "attention", c.n_heads), p, e + "norm1", c.norm_eps)
            m = norm(m + relu_mlp(m, p, e + "ffn"), p, e + "norm2", c.norm_eps)
        t = tokens.shape[1]
        real = np.ones_like(tokens, dtype=bool) if attention_mask is None else attention_mask
        at = (np.cumsum(real, axis=1) - 1).clip(0) if positions is None else positions
        mask = np.tri(t, dtype=bool) & real[:, None, None, :]
        x = self.embed(tokens, at)
        for i in range(c.n_layers):
            x = self.decoder_layer(x, m, f"decoder.layers.{i}.", mask, tap)
        return x @ p["embed"].T
