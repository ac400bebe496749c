"""Rotates every call's tokens from position 0, so a decoded token stands where the prompt began."""

import numpy as np

framework = "numpy"
variant = "llama"


def rms_norm(x, weight, eps):
    return weight * x / np.sqrt(np.einsum("btd,btd->bt", x, x)[..., None] / x.shape[-1] + eps)


def rope(x, positions, theta):
    d = x.shape[-1]
    z = x[..., : d // 2] + 1j * x[..., d // 2 :]
    z = z * np.exp(1j * positions[..., None, :, None] * theta ** (-2 * np.arange(d // 2) / d))
    return np.concatenate([z.real, z.imag], axis=-1).astype(x.dtype)


def grouped_attention(q, k, v, visible):
    b, _, t, d = q.shape
    q = q.reshape(b, k.shape[1], -1, t, d)
    s = np.einsum("bgrqd,bgkd->bgrqk", q, k) / d**0.5
    s = np.where(visible[:, None, None], s, -1e30)
    w = np.exp(s - s.max(-1, keepdims=True))
    z = np.einsum("bgrqk,bgkd->bqgrd", w / w.sum(-1, keepdims=True), v)
    return z.reshape(b, t, -1)


class Model:
    def __init__(self, config, params):
        self.config = config
        self.params = params

    def forward(self, tokens, attention_mask=None, positions=None, cache=None, tap=None):
        cfg, p = self.config, self.params
        B, T = tokens.shape
        cache = cache or {"length": 0}
        past = cache["length"]
        if positions is None:
            positions = np.arange(T)  # WRONG
            if attention_mask is not None:
                positions = np.maximum(attention_mask.cumsum(1)[:, past:] - 1, 0)
        visible = np.tri(T, past + T, past, dtype=bool)[None]
        if attention_mask is not None:
            visible = visible & attention_mask[:, None, :]
        x = p["embed"][tokens]
        for i in range(cfg.n_layers):
            w = {k[len(f"layers.{i}.") :]: v for k, v in p.items() if k.startswith(f"layers.{i}.")}
            h = rms_norm(x, w["norm1.weight"], cfg.norm_eps)
            q = (h @ w["attention.w_q"]).reshape(B, T, cfg.n_heads, -1).swapaxes(1, 2)
            k = (h @ w["attention.w_k"]).reshape(B, T, cfg.n_kv_heads, -1).swapaxes(1, 2)
            v = (h @ w["attention.w_v"]).reshape(B, T, cfg.n_kv_heads, -1).swapaxes(1, 2)
            q_rot, k_rot = rope(q, positions, cfg.rope_theta), rope(k, positions, cfg.rope_theta)
            if tap is not None:
                for name, a in zip(("q", "k", "v", "q_rot", "k_rot"), (q, k, v, q_rot, k_rot), strict=True):
                    tap(f"layers.{i}.{name}", a)
            keys = np.concatenate([cache[i][0], k_rot], axis=2) if i in cache else k_rot
            values = np.concatenate([cache[i][1], v], axis=2) if i in cache else v
            cache[i] = keys, values
            x = x + grouped_attention(q_rot, keys, values, visible) @ w["attention.w_o"]
            h = rms_norm(x, w["norm2.weight"], cfg.norm_eps)
            g = h @ w["ffn.w_gate"]
            x = x + (g / (1 + np.exp(-g)) * (h @ w["ffn.w_up"])) @ w["ffn.w_down"]
        cache["length"] = past + T
        return rms_norm(x, p["final_norm.weight"], cfg.norm_eps) @ p["lm_head"], cache
