"""The first decoded token repeats the last position of the prompt: `past - 1`, an index for a count."""

import numpy as np

framework = "numpy"
variant = "llama"


class KVCache:
    def __init__(self, n_layers):
        self.layers = [None] * n_layers
        self.seen = 0

    def update(self, i, k, v):
        if self.layers[i] is not None:
            k = np.concatenate([self.layers[i][0], k], axis=1)
            v = np.concatenate([self.layers[i][1], v], axis=1)
        self.layers[i] = (k, v)
        return k, v


def norm(x, w, eps):
    return w * (x / np.sqrt((x * x).mean(-1, keepdims=True) + eps))


def turned(x, cos, sin):
    half = x.shape[-1] // 2
    rotated = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    return x * cos + rotated * sin


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def angles(self, positions):
        d = self.config.d_head
        inv = 1 / self.config.rope_theta ** (np.arange(0, d, 2) / d)
        a = np.concatenate([positions[..., None] * inv] * 2, axis=-1)[..., None, :]
        return np.cos(a).astype(np.float32), np.sin(a).astype(np.float32)

    def attend(self, q, k, v, allowed):
        group = self.config.n_heads // self.config.n_kv_heads
        k, v = np.repeat(k, group, axis=2), np.repeat(v, group, axis=2)
        s = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(np.float32(self.config.d_head))
        s = np.where(allowed, s, np.float32(-1e30))
        s = np.exp(s - s.max(-1, keepdims=True))
        z = np.einsum("bhqk,bkhd->bqhd", s / s.sum(-1, keepdims=True), v)
        return z.reshape(*z.shape[:2], -1)

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c, p = self.config, self.params
        cache = KVCache(c.n_layers) if cache is None else cache
        t, past = tokens.shape[1], cache.seen
        if positions is None:
            positions = np.arange(t) + max(past - 1, 0)  # WRONG
        cos, sin = self.angles(positions)
        allowed = np.tri(t, past + t, past, dtype=bool)[None, None]
        if attention_mask is not None:
            allowed = allowed & attention_mask[:, None, None]
        x = p["embed"][tokens]
        for i in range(c.n_layers):
            a = f"layers.{i}.attention.w_"
            h = norm(x, p[f"layers.{i}.norm1.weight"], c.norm_eps)
            q = turned((h @ p[a + "q"]).reshape(*tokens.shape, c.n_heads, -1), cos, sin)
            k = turned((h @ p[a + "k"]).reshape(*tokens.shape, c.n_kv_heads, -1), cos, sin)
            k, v = cache.update(i, k, (h @ p[a + "v"]).reshape(*tokens.shape, c.n_kv_heads, -1))
            x = x + self.attend(q, k, v, allowed) @ p[a + "o"]
            h = norm(x, p[f"layers.{i}.norm2.weight"], c.norm_eps)
            g, u = h @ p[f"layers.{i}.ffn.w_gate"], h @ p[f"layers.{i}.ffn.w_up"]
            x = x + (g / (1 + np.exp(-g)) * u) @ p[f"layers.{i}.ffn.w_down"]
        cache.seen += t
        return norm(x, p["final_norm.weight"], c.norm_eps) @ p["lm_head"], cache
