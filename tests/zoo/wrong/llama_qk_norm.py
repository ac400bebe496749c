"""Queries and keys are normed per head, Qwen3's QK-norm, in a model that has none."""

import numpy as np

framework = "numpy"
variant = "llama"


def rms(x, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def rope(x, positions, theta):
    half = x.shape[-1] // 2
    angle = positions[..., None, :, None] * theta ** (-np.arange(half) / half)
    cos, sin = np.cos(angle), np.sin(angle)
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


class Model:
    def __init__(self, config, params):
        self.cfg, self.p = config, params

    def attention(self, h, i, positions, visible, past):
        cfg, p = self.cfg, self.p
        b, t, _ = h.shape
        w_q, w_k, w_v, w_o = (p[f"layers.{i}.attention.w_{c}"] for c in "qkvo")
        q = (h @ w_q).reshape(b, t, cfg.n_heads, -1).transpose(0, 2, 1, 3)
        k = (h @ w_k).reshape(b, t, cfg.n_kv_heads, -1).transpose(0, 2, 1, 3)
        v = (h @ w_v).reshape(b, t, cfg.n_kv_heads, -1).transpose(0, 2, 1, 3)
        q, k = rms(q, cfg.norm_eps), rms(k, cfg.norm_eps)  # WRONG
        q, k = rope(q, positions, cfg.rope_theta), rope(k, positions, cfg.rope_theta)
        if past is not None:
            k = np.concatenate([past[0], k], axis=2)
            v = np.concatenate([past[1], v], axis=2)
        n = cfg.n_heads // cfg.n_kv_heads
        s = np.einsum("bhqd,bhkd->bhqk", q, np.repeat(k, n, axis=1)) / cfg.d_head**0.5
        s = np.where(visible, s, np.finfo(s.dtype).min)
        w = np.exp(s - s.max(-1, keepdims=True))
        z = np.einsum("bhqk,bhkd->bqhd", w / w.sum(-1, keepdims=True), np.repeat(v, n, axis=1))
        return z.reshape(b, t, -1) @ w_o, (k, v)

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        cfg, p = self.cfg, self.p
        t = tokens.shape[1]
        n = 0 if cache is None else cache[0][0].shape[2]
        positions = np.arange(n, n + t) if positions is None else positions
        visible = np.tri(t, n + t, n, dtype=bool)[None, None]
        if attention_mask is not None:
            visible = visible & attention_mask[:, None, None]
        x, kept = p["embed"][tokens], []
        for i in range(cfg.n_layers):
            h = rms(x, cfg.norm_eps) * p[f"layers.{i}.norm1.weight"]
            a, kv = self.attention(h, i, positions, visible, None if cache is None else cache[i])
            kept.append(kv)
            x = x + a
            h = rms(x, cfg.norm_eps) * p[f"layers.{i}.norm2.weight"]
            g = h @ p[f"layers.{i}.ffn.w_gate"]
            x = x + g / (1 + np.exp(-g)) * (h @ p[f"layers.{i}.ffn.w_up"]) @ p[f"layers.{i}.ffn.w_down"]
        return rms(x, cfg.norm_eps) * p["final_norm.weight"] @ p["lm_head"], kept
