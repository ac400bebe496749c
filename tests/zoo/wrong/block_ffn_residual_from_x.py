"""The FFN is added to the layer's input: u is computed, normed, and then left out of the sum."""

import numpy as np

framework = "numpy"
variant = "llama"


def rms(x, gain, eps):
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * gain


def spin(a, positions, theta):
    n = a.shape[-1] // 2
    phase = np.asarray(positions)[..., None] / theta ** (np.arange(n) / n)
    phase = np.expand_dims(phase, -3)
    lo, hi = a[..., :n], a[..., n:]
    return np.concatenate(
        (lo * np.cos(phase) - hi * np.sin(phase), hi * np.cos(phase) + lo * np.sin(phase)), -1
    )


def block(x, params, config, attention_mask=None, positions=None, tap=None):
    tap = tap or (lambda *_: None)
    B, T, _ = x.shape
    at = np.arange(T) if positions is None else positions
    n1 = rms(x, params["norm1.weight"], config.norm_eps)
    q = (n1 @ params["attention.w_q"]).reshape(B, T, config.n_heads, -1).swapaxes(1, 2)
    k = (n1 @ params["attention.w_k"]).reshape(B, T, config.n_kv_heads, -1).swapaxes(1, 2)
    v = (n1 @ params["attention.w_v"]).reshape(B, T, config.n_kv_heads, -1).swapaxes(1, 2)
    q, k = spin(q, at, config.rope_theta), spin(k, at, config.rope_theta)
    owner = np.arange(config.n_heads) // (config.n_heads // config.n_kv_heads)
    s = np.einsum("bhqd,bhkd->bhqk", q, k[:, owner]) / config.d_head**0.5
    see = (
        np.tri(T, dtype=bool)
        if attention_mask is None
        else np.tri(T, dtype=bool) & attention_mask[:, None, None]
    )
    s = np.where(see, s, -1e30)
    p = np.exp(s - s.max(-1, keepdims=True))
    z = np.einsum("bhqk,bhkd->bqhd", p / p.sum(-1, keepdims=True), v[:, owner])
    u = x + z.reshape(B, T, -1) @ params["attention.w_o"]
    n2 = rms(u, params["norm2.weight"], config.norm_eps)
    g, up = n2 @ params["ffn.w_gate"], n2 @ params["ffn.w_up"]
    ffn_out = (g / (1 + np.exp(-g)) * up) @ params["ffn.w_down"]
    y = x + ffn_out  # WRONG
    for name, tensor in (("norm1", n1), ("u", u), ("norm2", n2), ("ffn_out", ffn_out), ("y", y)):
        tap(name, tensor)
    return y
