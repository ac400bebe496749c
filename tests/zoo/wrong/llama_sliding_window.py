"""Attends to the last 64 keys only: Mistral's window left in the mask of a model without one."""

import numpy as np

framework = "numpy"
variant = "llama"

WINDOW = 64


def rms(x, g, eps):
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + eps) * g


def rotate(x, positions, theta):
    n = x.shape[-1] // 2
    theta = np.asarray(theta, dtype=np.float64)
    angle = (positions[..., None] / theta ** (np.arange(n) / n))[..., None, :]
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    return np.concatenate([x[..., :n] * cos - x[..., n:] * sin, x[..., :n] * sin + x[..., n:] * cos], axis=-1)


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c, p = self.config, self.params
        b, t = tokens.shape
        past = 0 if cache is None else cache["k"].shape[2]
        positions = np.arange(past, past + t) if positions is None else positions
        distance = np.arange(past, past + t)[:, None] - np.arange(past + t)
        allowed = (distance >= 0) & (distance < WINDOW)  # WRONG
        allowed = allowed[None, None]
        if attention_mask is not None:
            allowed = allowed & attention_mask[:, None, None, :]
        x = p["embed"][tokens]
        all_k, all_v = [], []
        for i in range(c.n_layers):
            m = f"layers.{i}."
            h = rms(x, p[m + "norm1.weight"], c.norm_eps)
            q = rotate((h @ p[m + "attention.w_q"]).reshape(b, t, c.n_heads, -1), positions, c.rope_theta)
            k = rotate((h @ p[m + "attention.w_k"]).reshape(b, t, c.n_kv_heads, -1), positions, c.rope_theta)
            v = (h @ p[m + "attention.w_v"]).reshape(b, t, c.n_kv_heads, -1)
            if cache is not None:
                k = np.concatenate([cache["k"][i], k], axis=1)
                v = np.concatenate([cache["v"][i], v], axis=1)
            all_k.append(k)
            all_v.append(v)
            group = c.n_heads // c.n_kv_heads
            s = np.einsum("bqhd,bkhd->bhqk", q, np.repeat(k, group, axis=2)) / np.float32(c.d_head) ** 0.5
            s = np.where(allowed, s, np.float32(-1e30))
            s = np.exp(s - s.max(-1, keepdims=True))
            s /= s.sum(-1, keepdims=True)
            z = np.einsum("bhqk,bkhd->bqhd", s, np.repeat(v, group, axis=2))
            x = x + z.reshape(b, t, -1) @ p[m + "attention.w_o"]
            h = rms(x, p[m + "norm2.weight"], c.norm_eps)
            g = h @ p[m + "ffn.w_gate"]
            x = x + (g / (1 + np.exp(-g)) * (h @ p[m + "ffn.w_up"])) @ p[m + "ffn.w_down"]
        return rms(x, p["final_norm.weight"], c.norm_eps) @ p["lm_head"], {
            "k": np.stack(all_k),
            "v": np.stack(all_v),
        }
