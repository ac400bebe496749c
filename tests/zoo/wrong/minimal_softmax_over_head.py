"""Softmax over axis 1, the keys of a [B, T, T] score and the heads of a [B, H, T, T] one."""

import numpy as np

framework = "numpy"
variant = "minimal"


def soft(a, dim):
    a = np.exp(a - a.max(axis=dim, keepdims=True))
    return a / a.sum(axis=dim, keepdims=True)


def ln(a, p, name, eps):
    mean = np.mean(a, axis=-1, keepdims=True)
    var = np.mean((a - mean) ** 2, axis=-1, keepdims=True)
    return p[name + ".weight"] * (a - mean) / np.sqrt(var + eps) + p[name + ".bias"]


def self_attention(a, p, name, cfg, keep):
    b, t, _ = a.shape
    q = (a @ p[name + ".w_q"]).reshape(b, t, cfg.n_heads, cfg.d_head).swapaxes(1, 2)
    k = (a @ p[name + ".w_k"]).reshape(b, t, cfg.n_heads, cfg.d_head).swapaxes(1, 2)
    v = (a @ p[name + ".w_v"]).reshape(b, t, cfg.n_heads, cfg.d_value).swapaxes(1, 2)
    logits = (q / cfg.d_head**0.5) @ k.swapaxes(2, 3)
    logits = np.where(keep, logits, np.finfo(logits.dtype).min)
    probs = soft(logits, 1)  # WRONG
    return (probs @ v).swapaxes(1, 2).reshape(b, t, -1) @ p[name + ".w_o"]


class Model:
    def __init__(self, config, params):
        self.cfg, self.p = config, params

    def forward(self, tokens, attention_mask=None):
        cfg, p = self.cfg, self.p
        t = tokens.shape[1]
        keep = np.tril(np.ones((1, 1, t, t), dtype=bool))
        if attention_mask is not None:
            keep = keep & attention_mask[:, None, None, :]
        a = p["embed"][tokens]
        for n in range(cfg.n_layers):
            here = f"layers.{n}"
            a = a + self_attention(ln(a, p, here + ".norm1", cfg.norm_eps), p, here + ".attention", cfg, keep)
            inner = ln(a, p, here + ".norm2", cfg.norm_eps) @ p[here + ".ffn.w_1"]
            a = a + inner.clip(min=0) @ p[here + ".ffn.w_2"]
        return ln(a, p, "final_norm", cfg.norm_eps) @ p["lm_head"]
