"""Multiplies by the root mean square where RMSNorm divides: x / rsqrt(ms)."""

import numpy as np

framework = "numpy"
variant = "llama"


def rsqrt(x):
    return 1.0 / np.sqrt(x)


def rms_norm(x, weight, eps):
    normed = x / rsqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)  # WRONG
    return normed * weight


def rotary(x, positions, theta):
    d = x.shape[-1]
    out = np.array(x)
    for i in range(d // 2):
        angle = positions[..., None] * theta ** (-2 * i / d)
        a, b = x[..., i], x[..., i + d // 2]
        out[..., i] = a * np.cos(angle) - b * np.sin(angle)
        out[..., i + d // 2] = a * np.sin(angle) + b * np.cos(angle)
    return out


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def layer(self, x, w, positions, mask):
        c = self.config
        b, t, _ = x.shape
        h = rms_norm(x, w("norm1.weight"), c.norm_eps)
        q = rotary((h @ w("attention.w_q")).reshape(b, t, c.n_heads, -1), positions, c.rope_theta)
        k = rotary((h @ w("attention.w_k")).reshape(b, t, c.n_kv_heads, -1), positions, c.rope_theta)
        v = (h @ w("attention.w_v")).reshape(b, t, c.n_kv_heads, -1)
        owner = np.arange(c.n_heads) // (c.n_heads // c.n_kv_heads)
        s = np.einsum("bqhd,bkhd->bhqk", q, k[:, :, owner]) / c.d_head**0.5
        s = np.where(mask, s, -1e30)
        e = np.exp(s - s.max(-1, keepdims=True))
        z = np.einsum("bhqk,bkhd->bqhd", e / e.sum(-1, keepdims=True), v[:, :, owner])
        x = x + z.reshape(b, t, -1) @ w("attention.w_o")
        h = rms_norm(x, w("norm2.weight"), c.norm_eps)
        gate = h @ w("ffn.w_gate")
        sigmoid = np.where(gate > 0, 1 / (1 + np.exp(-np.abs(gate))), 1 - 1 / (1 + np.exp(-np.abs(gate))))
        return x + (gate * sigmoid * (h @ w("ffn.w_up"))) @ w("ffn.w_down")

    def forward(self, tokens, attention_mask=None, positions=None):
        t = tokens.shape[1]
        positions = np.arange(t) if positions is None else positions
        mask = np.tri(t, dtype=bool)[None, None]
        if attention_mask is not None:
            mask = mask & attention_mask[:, None, None]
        x = self.params["embed"][tokens]
        for i in range(self.config.n_layers):
            x = self.layer(x, lambda name, i=i: self.params[f"layers.{i}.{name}"], positions, mask)
        return rms_norm(x, self.params["final_norm.weight"], self.config.norm_eps) @ self.params["lm_head"]
