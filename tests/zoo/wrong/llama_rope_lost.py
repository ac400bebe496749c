"""The rotated queries and keys are computed and not used: the assignment binds new names."""

import numpy as np

framework = "numpy"
variant = "llama"


def apply_rotary(q, k, positions, theta):
    d = q.shape[-1]
    angle = np.asarray(positions)[..., None] / theta ** (np.arange(0, d, 2) / d)
    angle = np.tile(angle, 2)[..., None, :]
    cos, sin = np.cos(angle), np.sin(angle)

    def turn(x):
        return x * cos + np.concatenate([-x[..., d // 2 :], x[..., : d // 2]], axis=-1) * sin

    return turn(q), turn(k)


def rms_norm(x, weight, eps):
    return x * weight / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def attention(self, x, name, positions, mask, tap):
        cfg, p = self.config, self.params
        shape = (x.shape[0], x.shape[1], -1)
        xq = (x @ p[name + ".attention.w_q"]).reshape(*shape, cfg.d_head)
        xk = (x @ p[name + ".attention.w_k"]).reshape(*shape, cfg.d_head)
        xv = (x @ p[name + ".attention.w_v"]).reshape(*shape, cfg.d_value)
        q_rot, k_rot = apply_rotary(xq, xk, positions, cfg.rope_theta)
        tap(name + ".q", xq.swapaxes(1, 2))
        tap(name + ".k", xk.swapaxes(1, 2))
        tap(name + ".q_rot", q_rot.swapaxes(1, 2))
        tap(name + ".k_rot", k_rot.swapaxes(1, 2))
        groups = xq.reshape(*shape[:2], cfg.n_kv_heads, -1, cfg.d_head)
        s = np.einsum("bqgrd,bkgd->bgrqk", groups, xk) / cfg.d_head**0.5  # WRONG
        tap(name + ".scores", s.reshape(x.shape[0], cfg.n_heads, *s.shape[3:]))
        s = np.where(mask[:, None, None], s, -1e30)
        w = np.exp(s - s.max(-1, keepdims=True))
        z = np.einsum("bgrqk,bkgd->bqgrd", w / w.sum(-1, keepdims=True), xv)
        return z.reshape(shape) @ p[name + ".attention.w_o"]

    def forward(self, tokens, attention_mask=None, positions=None, tap=None):
        tap = tap or (lambda name, tensor: None)
        cfg, p = self.config, self.params
        mask = np.tri(tokens.shape[1], dtype=bool)[None]
        mask = mask if attention_mask is None else mask & attention_mask[:, None]
        if positions is None:
            real = np.ones_like(tokens) if attention_mask is None else attention_mask
            positions = np.maximum(np.cumsum(real, axis=1) - 1, 0)
        x = p["embed"][tokens]
        for i in range(cfg.n_layers):
            name = f"layers.{i}"
            tap(name + ".x", x)
            h = rms_norm(x, p[name + ".norm1.weight"], cfg.norm_eps)
            x = x + self.attention(h, name, positions, mask, tap)
            tap(name + ".u", x)
            h = rms_norm(x, p[name + ".norm2.weight"], cfg.norm_eps)
            g = h @ p[name + ".ffn.w_gate"]
            g = g / (np.exp(-g) + 1)
            x = x + (g * (h @ p[name + ".ffn.w_up"])) @ p[name + ".ffn.w_down"]
            tap(name + ".y", x)
        return rms_norm(x, p["final_norm.weight"], cfg.norm_eps) @ p["lm_head"]
