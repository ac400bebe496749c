"""A padding mask takes the causal mask's place: `mask = attention_mask or causal`, in effect."""

import numpy as np

framework = "numpy"
variant = "llama"


class Model:
    def __init__(self, config, params):
        self.config = config
        self.params = params

    def build_mask(self, t, total, attention_mask):
        if attention_mask is None:
            return np.tri(t, total, total - t, dtype=bool)[None, None]
        return np.broadcast_to(attention_mask[:, None, None, :], (len(attention_mask), 1, t, total))  # WRONG

    def norm(self, x, name):
        return x * self.params[name] * (np.mean(x**2, -1, keepdims=True) + self.config.norm_eps) ** -0.5

    def rotated(self, x, positions):
        half = x.shape[-1] // 2
        angle = positions[..., None, :, None] * self.config.rope_theta ** (-np.arange(half) / half)
        turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angle)
        return np.concatenate([turned.real, turned.imag], axis=-1).astype(x.dtype)

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        cfg, p = self.config, self.params
        b, t = tokens.shape
        cache = [None for _ in range(cfg.n_layers)] if cache is None else cache
        past = 0 if cache[0] is None else cache[0][0].shape[2]
        if positions is None:
            positions = np.arange(past, past + t)
        mask = self.build_mask(t, past + t, attention_mask)
        x = p["embed"][tokens]
        for i, old in enumerate(cache):
            a = f"layers.{i}.attention.w_"
            h = self.norm(x, f"layers.{i}.norm1.weight")
            q = self.rotated((h @ p[a + "q"]).reshape(b, t, cfg.n_heads, -1).swapaxes(1, 2), positions)
            k = self.rotated((h @ p[a + "k"]).reshape(b, t, cfg.n_kv_heads, -1).swapaxes(1, 2), positions)
            v = (h @ p[a + "v"]).reshape(b, t, cfg.n_kv_heads, -1).swapaxes(1, 2)
            if old is not None:
                k, v = np.concatenate([old[0], k], axis=2), np.concatenate([old[1], v], axis=2)
            cache[i] = k, v
            s = np.zeros((b, cfg.n_heads, t, past + t), dtype=x.dtype)
            for h_i in range(cfg.n_heads):
                s[:, h_i] = q[:, h_i] @ k[:, h_i * cfg.n_kv_heads // cfg.n_heads].swapaxes(1, 2)
            s = np.where(mask, s / cfg.d_head**0.5, -1e30)
            w = np.exp(s - s.max(-1, keepdims=True))
            w /= w.sum(-1, keepdims=True)
            z = [w[:, h_i] @ v[:, h_i * cfg.n_kv_heads // cfg.n_heads] for h_i in range(cfg.n_heads)]
            x = x + np.concatenate(z, axis=-1) @ p[a + "o"]
            h = self.norm(x, f"layers.{i}.norm2.weight")
            g, u = h @ p[f"layers.{i}.ffn.w_gate"], h @ p[f"layers.{i}.ffn.w_up"]
            x = x + (g * u / (1 + np.exp(-g))) @ p[f"layers.{i}.ffn.w_down"]
        return self.norm(x, "final_norm.weight") @ p["lm_head"], cache
