"""Positions count from 0 in every call, so each decoded token stands at position 0."""

import numpy as np

framework = "numpy"
variant = "gpt2"


def norm(x, w, b, eps):
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt(np.einsum("btd,btd->bt", d, d)[..., None] / d.shape[-1] + eps) * w + b


def gelu_new(x):
    return x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * x * (1 + 0.044715 * x * x)))


class Model:
    def __init__(self, config, params):
        self.config, self.p = config, params

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        p, c = self.p, self.config
        B, T = tokens.shape
        old = 0 if cache is None else cache["n"]
        if positions is None:
            positions = np.arange(T)  # WRONG
            if attention_mask is not None:
                positions = np.maximum(attention_mask.cumsum(axis=1)[:, old:] - 1, 0)
        cache = {"n": 0, "k": [None] * c.n_layers, "v": [None] * c.n_layers} if cache is None else cache
        x = p["embed"][tokens] + p["position_embed"][positions]
        blocked = np.arange(old + T) > np.arange(old, old + T)[:, None]
        if attention_mask is not None:
            blocked = blocked | ~attention_mask[:, None, None, :]
        for i in range(c.n_layers):
            g = f"layers.{i}."
            h = norm(x, p[g + "norm1.weight"], p[g + "norm1.bias"], c.norm_eps)
            q = (
                (h @ p[g + "attention.w_q"] + p[g + "attention.b_q"])
                .reshape(B, T, c.n_heads, -1)
                .swapaxes(1, 2)
            )
            for s in "kv":
                new = h @ p[g + "attention.w_" + s] + p[g + "attention.b_" + s]
                new = new.reshape(B, T, c.n_heads, -1).swapaxes(1, 2)
                cache[s][i] = new if cache[s][i] is None else np.concatenate([cache[s][i], new], axis=2)
            s = np.where(blocked, -1e30, np.einsum("bhqd,bhkd->bhqk", q, cache["k"][i]) / c.d_head**0.5)
            s = np.exp(s - s.max(-1, keepdims=True))
            z = np.einsum("bhqk,bhkd->bqhd", s / s.sum(-1, keepdims=True), cache["v"][i]).reshape(B, T, -1)
            x = x + z @ p[g + "attention.w_o"] + p[g + "attention.b_o"]
            h = norm(x, p[g + "norm2.weight"], p[g + "norm2.bias"], c.norm_eps)
            x = x + gelu_new(h @ p[g + "ffn.w_1"] + p[g + "ffn.b_1"]) @ p[g + "ffn.w_2"] + p[g + "ffn.b_2"]
        cache["n"] = old + T
        return norm(x, p["final_norm.weight"], p["final_norm.bias"], c.norm_eps) @ p["embed"].T, cache
