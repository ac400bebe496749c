"""z.reshape(B, T, D) straight from [B, H, T, Dh]: positions and heads change places, silently."""

import numpy as np

framework = "numpy"
variant = "minimal"


def standard(x, p, name, eps):
    mean = x.mean(axis=-1, keepdims=True)
    scale = np.sqrt(np.mean(np.square(x - mean), axis=-1, keepdims=True) + eps)
    return p[name + ".weight"] * ((x - mean) / scale) + p[name + ".bias"]


class Model:
    def __init__(self, config, params):
        self.cfg = config
        self.p = params

    def mix(self, h, at, blocked):
        cfg, p = self.cfg, self.p
        batch, length, _ = h.shape
        shape = (batch, length, cfg.n_heads, -1)
        q = (h @ p[at + "w_q"]).reshape(shape).transpose(0, 2, 1, 3)
        k = (h @ p[at + "w_k"]).reshape(shape).transpose(0, 2, 3, 1)
        v = (h @ p[at + "w_v"]).reshape(shape).transpose(0, 2, 1, 3)
        energy = q @ k / cfg.d_head**0.5
        energy = np.where(blocked, np.finfo(energy.dtype).min, energy)
        weights = np.exp(energy - energy.max(-1, keepdims=True))
        z = weights / weights.sum(-1, keepdims=True) @ v
        concat = z.reshape(batch, length, -1)  # WRONG
        return concat @ p[at + "w_o"]

    def forward(self, tokens, attention_mask=None):
        cfg, p = self.cfg, self.p
        n = tokens.shape[1]
        blocked = np.triu(np.ones((1, 1, n, n), dtype=bool), 1)
        if attention_mask is not None:
            blocked = blocked | np.logical_not(attention_mask[:, None, None, :])
        x = np.take(p["embed"], tokens, axis=0)
        for i in range(cfg.n_layers):
            x = x + self.mix(
                standard(x, p, f"layers.{i}.norm1", cfg.norm_eps), f"layers.{i}.attention.", blocked
            )
            h = standard(x, p, f"layers.{i}.norm2", cfg.norm_eps) @ p[f"layers.{i}.ffn.w_1"]
            x = x + (h * (h > 0)) @ p[f"layers.{i}.ffn.w_2"]
        return standard(x, p, "final_norm", cfg.norm_eps) @ p["lm_head"]
