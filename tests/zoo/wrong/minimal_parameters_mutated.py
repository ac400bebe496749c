"""Folds the scale into Wq in place at each call, so the second call divides once more."""

import numpy as np

framework = "numpy"
variant = "minimal"


def norm(x, params, name, eps):
    spread = np.sqrt(x.var(-1, keepdims=True) + eps)
    return params[name + ".weight"] * (x - x.mean(-1, keepdims=True)) / spread + params[name + ".bias"]


class Model:
    def __init__(self, config, params):
        self.config = config
        self.params = {name: np.array(value) for name, value in params.items()}

    def attend(self, h, name, allowed):
        w_q = self.params[name + ".w_q"]
        w_q /= self.config.d_head**0.5  # WRONG
        q = np.einsum("bti,iho->bhto", h, w_q.reshape(h.shape[-1], self.config.n_heads, -1))
        k, v = (
            np.einsum("bti,iho->bhto", h, self.params[name + c].reshape(h.shape[-1], self.config.n_heads, -1))
            for c in (".w_k", ".w_v")
        )
        s = np.where(allowed, np.einsum("bhqd,bhkd->bhqk", q, k), -1e30)
        s = np.exp(s - s.max(-1, keepdims=True))
        z = np.einsum("bhqk,bhkd->bqhd", s / s.sum(-1, keepdims=True), v)
        return z.reshape(*h.shape[:2], -1) @ self.params[name + ".w_o"]

    def forward(self, tokens, attention_mask=None):
        eps, p = self.config.norm_eps, self.params
        allowed = np.tri(tokens.shape[1], dtype=bool)[None, None]
        if attention_mask is not None:
            allowed = allowed & attention_mask[:, None, None]
        x = p["embed"][tokens]
        for i in range(self.config.n_layers):
            x = x + self.attend(norm(x, p, f"layers.{i}.norm1", eps), f"layers.{i}.attention", allowed)
            h = np.maximum(norm(x, p, f"layers.{i}.norm2", eps) @ p[f"layers.{i}.ffn.w_1"], 0)
            x = x + h @ p[f"layers.{i}.ffn.w_2"]
        return norm(x, p, "final_norm", eps) @ p["lm_head"]
