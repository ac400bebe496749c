"""The up projection passes through SiLU alone and the gate is never multiplied in."""

import numpy as np

framework = "numpy"
variant = "llama"


def rms(v, gain, eps):
    return gain * v * (np.mean(v * v, axis=-1, keepdims=True) + eps) ** -0.5


def feed_forward(v, w):
    up = v @ w["ffn.w_up"]
    hidden = up / (1.0 + np.exp(-up))  # WRONG
    return hidden @ w["ffn.w_down"]


def silu(z):
    return z / (1.0 + np.exp(-z))


def self_attend(v, w, c, positions, blocked):
    b, t, _ = v.shape
    half = c.d_head // 2
    spin = np.exp(1j * np.multiply.outer(positions, c.rope_theta ** (-np.arange(half) / half)))[..., None, :]

    def rotated(name):
        a = (v @ w[name]).reshape(b, t, -1, 2, half)
        z = (a[..., 0, :] + 1j * a[..., 1, :]) * spin
        return np.concatenate([z.real, z.imag], axis=-1)

    q, k = rotated("attention.w_q"), rotated("attention.w_k")
    values = (v @ w["attention.w_v"]).reshape(b, t, c.n_kv_heads, -1)
    out = np.zeros((b, t, c.n_heads, values.shape[-1]), v.dtype)
    for h in range(c.n_heads):
        g = h * c.n_kv_heads // c.n_heads
        s = np.einsum("bid,bjd->bij", q[:, :, h], k[:, :, g]) / c.d_head**0.5
        s = np.where(blocked, -1e30, s)
        s = np.exp(s - s.max(2, keepdims=True))
        out[:, :, h] = s / s.sum(2, keepdims=True) @ values[:, :, g]
    return out.reshape(b, t, -1) @ w["attention.w_o"]


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def forward(self, tokens, attention_mask=None, positions=None):
        c, p = self.config, self.params
        t = tokens.shape[1]
        if positions is None:
            positions = np.arange(t)
        blocked = ~np.tri(t, dtype=bool)[None]
        if attention_mask is not None:
            blocked = blocked | ~attention_mask[:, None, :]
        x = p["embed"][tokens]
        for n in range(c.n_layers):
            w = {k.removeprefix(f"layers.{n}."): a for k, a in p.items() if k.startswith(f"layers.{n}.")}
            x = x + self_attend(rms(x, w["norm1.weight"], c.norm_eps), w, c, positions, blocked)
            x = x + feed_forward(rms(x, w["norm2.weight"], c.norm_eps), w)
        return rms(x, p["final_norm.weight"], c.norm_eps) @ p["lm_head"]
