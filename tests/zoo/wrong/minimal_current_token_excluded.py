"""Slices the cache by a counter that is advanced later, so a token never reads itself in decode."""

import numpy as np

framework = "numpy"
variant = "minimal"


def shares(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


class Model:
    def __init__(self, config, params):
        self.cfg = config
        self.w = params

    def norm(self, x, name):
        centred = x - np.mean(x, axis=-1, keepdims=True)
        rms = np.sqrt(np.mean(np.square(centred), axis=-1, keepdims=True) + self.cfg.norm_eps)
        return centred / rms * self.w[name + ".weight"] + self.w[name + ".bias"]

    def attention(self, x, prefix, store, allowed):
        b, t, _ = x.shape
        past, k_all, v_all = store
        q = (x @ self.w[prefix + "w_q"]).reshape(b, t, self.cfg.n_heads, -1)
        k = (x @ self.w[prefix + "w_k"]).reshape(b, t, self.cfg.n_heads, -1)
        v = (x @ self.w[prefix + "w_v"]).reshape(b, t, self.cfg.n_heads, -1)
        k_all = k if past == 0 else np.concatenate([k_all, k], axis=1)
        v_all = v if past == 0 else np.concatenate([v_all, v], axis=1)
        count = past or t  # WRONG
        keys, values = k_all[:, :count], v_all[:, :count]
        scores = np.einsum("bqhd,bkhd->bhqk", q, keys) / self.cfg.d_head**0.5
        scores = np.where(allowed[:, None, :, :count], scores, -1e30)
        z = np.einsum("bhqk,bkhd->bqhd", shares(scores), values)
        return z.reshape(b, t, -1) @ self.w[prefix + "w_o"], (past + t, k_all, v_all)

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        t = tokens.shape[1]
        stores = [(0, None, None)] * self.cfg.n_layers if cache is None else cache
        past = stores[0][0]
        allowed = np.arange(past + t) <= (past + np.arange(t))[:, None]
        allowed = allowed[None] if attention_mask is None else allowed & attention_mask[:, None]
        x = self.w["embed"][tokens]
        after = []
        for i, store in enumerate(stores):
            h = self.norm(x, f"layers.{i}.norm1")
            a, grown = self.attention(h, f"layers.{i}.attention.", store, allowed)
            x = x + a
            h = self.norm(x, f"layers.{i}.norm2") @ self.w[f"layers.{i}.ffn.w_1"]
            x = x + np.maximum(h, 0) @ self.w[f"layers.{i}.ffn.w_2"]
            after.append(grown)
        return self.norm(x, "final_norm") @ self.w["lm_head"], after
