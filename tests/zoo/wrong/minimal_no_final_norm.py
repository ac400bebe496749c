"""The last block goes straight to the head: the final norm is missing, as in the post-norm original."""

from typing import NamedTuple

import numpy as np

framework = "numpy"
variant = "minimal"


class State(NamedTuple):
    keys: np.ndarray
    values: np.ndarray


def standardise(x, gain, shift, eps):
    moved = x - np.add.reduce(x, -1, keepdims=True) / x.shape[-1]
    energy = np.einsum("btd,btd->bt", moved, moved)[..., None] / x.shape[-1]
    return gain * moved / np.sqrt(energy + eps) + shift


def mix(q, k, v, allowed):
    s = np.einsum("bqhd,bkhd->bhqk", q, k) * (q.shape[-1] ** -0.5)
    s = np.where(allowed[:, None], s, -np.inf)
    peak = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(peak == -np.inf, 0, peak))
    return np.einsum("bhqk,bkhd->bqhd", e / np.maximum(e.sum(-1, keepdims=True), 1e-30), v)


class Model:
    def __init__(self, config, params):
        self.c = config
        self.p = params

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c, p = self.c, self.p
        b, t = tokens.shape
        n = 0 if cache is None else cache[0].keys.shape[1]
        allowed = np.tri(t, n + t, n, dtype=bool)[None]
        if attention_mask is not None:
            allowed = allowed & attention_mask[:, None]
        stream, grown = p["embed"][tokens], []
        for i in range(c.n_layers):
            w = {name.split(".", 2)[2]: a for name, a in p.items() if name.startswith(f"layers.{i}.")}
            h = standardise(stream, w["norm1.weight"], w["norm1.bias"], c.norm_eps)
            q = (h @ w["attention.w_q"]).reshape(b, t, c.n_heads, -1)
            k = (h @ w["attention.w_k"]).reshape(b, t, c.n_heads, -1)
            v = (h @ w["attention.w_v"]).reshape(b, t, c.n_heads, -1)
            if cache is not None:
                k = np.concatenate([cache[i].keys, k], axis=1)
                v = np.concatenate([cache[i].values, v], axis=1)
            grown.append(State(k, v))
            stream = stream + mix(q, k, v, allowed).reshape(b, t, -1) @ w["attention.w_o"]
            h = standardise(stream, w["norm2.weight"], w["norm2.bias"], c.norm_eps)
            stream = stream + np.maximum(h @ w["ffn.w_1"], 0) @ w["ffn.w_2"]
        final = stream  # WRONG
        return final @ p["lm_head"], grown
