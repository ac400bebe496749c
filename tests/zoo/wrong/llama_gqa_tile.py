"""Sets copies of all key/value heads one behind the other: `torch.cat([k] * n)` for repeat_interleave."""

import numpy as np

framework = "numpy"
variant = "llama"


def norm(x, weight, eps):
    scale = np.sqrt(np.sum(x * x, axis=-1, keepdims=True) / x.shape[-1] + eps)
    return x / scale * weight


def rotary(x, positions, theta):
    h = x.shape[-1] // 2
    angle = np.multiply.outer(positions, theta ** (-np.arange(h) / h))[..., None, :]
    return np.concatenate(
        [
            x[..., :h] * np.cos(angle) - x[..., h:] * np.sin(angle),
            x[..., h:] * np.cos(angle) + x[..., :h] * np.sin(angle),
        ],
        -1,
    )


class Model:
    def __init__(self, config, params):
        self.config = config
        self.params = params

    def attend(self, q, k, v, allowed):
        n = q.shape[2] // k.shape[2]
        k, v = np.concatenate([k] * n, axis=2), np.concatenate([v] * n, axis=2)  # WRONG
        s = np.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[3] ** -0.5
        s = np.where(allowed, s, -1e30)
        e = np.exp(s - np.max(s, axis=-1, keepdims=True))
        z = np.einsum("bhqk,bkhd->bqhd", e / np.sum(e, axis=-1, keepdims=True), v)
        return z.reshape(*z.shape[:2], -1)

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        cfg, p = self.config, self.params
        b, t = tokens.shape
        start = 0 if cache is None else cache[0]["k"].shape[1]
        positions = np.arange(start, start + t) if positions is None else positions
        allowed = np.tri(t, start + t, start, dtype=bool)[None, None]
        if attention_mask is not None:
            allowed = allowed & attention_mask[:, None, None]
        x = p["embed"][tokens]
        layers = []
        for i in range(cfg.n_layers):
            name = f"layers.{i}."
            h = norm(x, p[name + "norm1.weight"], cfg.norm_eps)
            q = rotary(
                (h @ p[name + "attention.w_q"]).reshape(b, t, cfg.n_heads, -1), positions, cfg.rope_theta
            )
            k = rotary(
                (h @ p[name + "attention.w_k"]).reshape(b, t, cfg.n_kv_heads, -1), positions, cfg.rope_theta
            )
            v = (h @ p[name + "attention.w_v"]).reshape(b, t, cfg.n_kv_heads, -1)
            if cache is not None:
                k, v = np.hstack([cache[i]["k"], k]), np.hstack([cache[i]["v"], v])
            layers.append({"k": k, "v": v})
            x = x + self.attend(q, k, v, allowed) @ p[name + "attention.w_o"]
            h = norm(x, p[name + "norm2.weight"], cfg.norm_eps)
            gate = h @ p[name + "ffn.w_gate"]
            gate = gate * 0.5 * (1 + np.tanh(gate / 2))
            x = x + (gate * (h @ p[name + "ffn.w_up"])) @ p[name + "ffn.w_down"]
        return norm(x, p["final_norm.weight"], cfg.norm_eps) @ p["lm_head"], layers
