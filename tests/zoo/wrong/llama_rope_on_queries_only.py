"""Only the queries are rotated, so the scores depend on absolute positions."""

import numpy as np

framework = "numpy"
variant = "llama"


def rms(x, weight, eps):
    return (x / np.sqrt(np.mean(np.square(x), -1, keepdims=True) + eps)) * weight


def silu(x):
    return x / (1 + np.exp(-x))


def rotation(positions, d, theta):
    """One matrix [.., d, d] for each position."""
    half = d // 2
    angle = np.asarray(positions)[..., None] * theta ** (-2 * np.arange(half) / d)
    matrix = np.zeros((*angle.shape[:-1], d, d), dtype=np.float32)
    i = np.arange(half)
    matrix[..., i, i] = matrix[..., i + half, i + half] = np.cos(angle)
    matrix[..., i, i + half] = np.sin(angle)
    matrix[..., i + half, i] = -np.sin(angle)
    return matrix


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c, p = self.config, self.params
        b, t = tokens.shape
        past = cache[0].shape[2] if cache else 0
        positions = np.arange(past, past + t) if positions is None else positions
        turn = rotation(np.broadcast_to(positions, (b, t)), c.d_head, c.rope_theta)
        allowed = np.tri(t, past + t, past, dtype=bool)[None, None]
        if attention_mask is not None:
            allowed = allowed & attention_mask[:, None, None]
        x, new = p["embed"][tokens], []
        for i in range(c.n_layers):
            w = {k.split(".", 2)[2]: v for k, v in p.items() if k.startswith(f"layers.{i}.")}
            h = rms(x, w["norm1.weight"], c.norm_eps)
            q = np.reshape(h @ w["attention.w_q"], (b, t, c.n_heads, -1))
            k = np.reshape(h @ w["attention.w_k"], (b, t, c.n_kv_heads, -1))
            v = np.reshape(h @ w["attention.w_v"], (b, t, c.n_kv_heads, -1))
            q = np.einsum("bthd,btde->bhte", q, turn)
            k = np.einsum("bthd->bhtd", k)  # WRONG
            k = k if cache is None else np.concatenate([cache[2 * i], k], axis=2)
            v = v if cache is None else np.concatenate([cache[2 * i + 1], v], axis=1)
            new += [k, v]
            share = c.n_heads // c.n_kv_heads
            s = np.einsum("bhqd,bhkd->bhqk", q, np.repeat(k, share, 1)) / np.float32(c.d_head) ** 0.5
            s = np.where(allowed, s, np.float32(-1e30))
            s = np.exp(s - s.max(-1, keepdims=True))
            z = np.einsum("bhqk,bkhd->bqhd", s / s.sum(-1, keepdims=True), np.repeat(v, share, 2))
            x = x + z.reshape(b, t, -1) @ w["attention.w_o"]
            h = rms(x, w["norm2.weight"], c.norm_eps)
            x = x + (silu(h @ w["ffn.w_gate"]) * (h @ w["ffn.w_up"])) @ w["ffn.w_down"]
        return rms(x, p["final_norm.weight"], c.norm_eps) @ p["lm_head"], new
