"""`theta ** a / b`: the power binds first, so the frequencies are Dh * theta ** (-2i)."""

import numpy as np

framework = "numpy"
variant = "llama"


def frequencies(dim, theta):
    return 1.0 / (theta ** np.arange(0, dim, 2, dtype=np.float64) / dim)  # WRONG


def rotated(x, angle):
    half = x.shape[-1] // 2
    out = np.empty_like(x)
    out[..., :half] = x[..., :half] * np.cos(angle) - x[..., half:] * np.sin(angle)
    out[..., half:] = x[..., :half] * np.sin(angle) + x[..., half:] * np.cos(angle)
    return out


def rms_norm(x, weight, eps):
    variance = np.mean(np.square(x), axis=-1, keepdims=True)
    return weight * (x * np.reciprocal(np.sqrt(variance + eps)))


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params
        self.inv_freq = frequencies(config.d_head, float(config.rope_theta))

    def forward(self, tokens, attention_mask=None, positions=None):
        cfg, p = self.config, self.params
        b, t = tokens.shape
        positions = np.arange(t) if positions is None else positions
        angle = positions[..., None] * self.inv_freq
        angle = angle[..., None, :]
        mask = np.tri(t, dtype=bool)[None]
        if attention_mask is not None:
            mask = mask & attention_mask[:, None, :]
        x = p["embed"][tokens]
        for i in range(cfg.n_layers):
            n = f"layers.{i}."
            h = rms_norm(x, p[n + "norm1.weight"], cfg.norm_eps)
            q = rotated((h @ p[n + "attention.w_q"]).reshape(b, t, cfg.n_heads, -1), angle)
            k = rotated((h @ p[n + "attention.w_k"]).reshape(b, t, cfg.n_kv_heads, -1), angle)
            v = (h @ p[n + "attention.w_v"]).reshape(b, t, cfg.n_kv_heads, -1)
            z = []
            for j in range(cfg.n_heads):
                g = j // (cfg.n_heads // cfg.n_kv_heads)
                s = q[:, :, j] @ k[:, :, g].transpose(0, 2, 1) * cfg.d_head**-0.5
                s = np.where(mask, s, np.finfo(s.dtype).min)
                s = np.exp(s - s.max(-1, keepdims=True))
                z.append(s / s.sum(-1, keepdims=True) @ v[:, :, g])
            x = x + np.concatenate(z, axis=-1) @ p[n + "attention.w_o"]
            h = rms_norm(x, p[n + "norm2.weight"], cfg.norm_eps)
            gate = h @ p[n + "ffn.w_gate"]
            x = x + (gate * (1 / (1 + np.exp(-gate))) * (h @ p[n + "ffn.w_up"])) @ p[n + "ffn.w_down"]
        return rms_norm(x, p["final_norm.weight"], cfg.norm_eps) @ p["lm_head"]
