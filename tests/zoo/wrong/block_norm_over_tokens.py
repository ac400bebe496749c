"""The second norm is taken over tokens and features at once, as nn.LayerNorm((T, D)) would."""

import numpy as np

framework = "numpy"
variant = "minimal"


def normalised(h, axes, eps):
    centred = h - h.mean(axis=axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=axes, keepdims=True) + eps)


def block(x, params, config, attention_mask=None, tap=None):
    show = tap if tap is not None else lambda name, tensor: None
    B, T, _ = x.shape
    h = normalised(x, -1, config.norm_eps) * params["norm1.weight"] + params["norm1.bias"]
    show("norm1", h)

    def project(name, width):
        return (h @ params[f"attention.{name}"]).reshape(B, T, -1, width).transpose(0, 2, 1, 3)

    q, k, v = project("w_q", config.d_head), project("w_k", config.d_head), project("w_v", config.d_value)
    seen = np.tri(T, dtype=bool)
    if attention_mask is not None:
        seen = seen & attention_mask[:, None, None]
    logit = np.where(seen, np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(config.d_head), -1e9)
    p = np.exp(logit - logit.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    mixed = np.einsum("bhqk,bhkd->bqhd", p, v).reshape(B, T, -1)
    u = x + mixed @ params["attention.w_o"]
    show("u", u)
    g = normalised(u, (1, 2), config.norm_eps)  # WRONG
    g = g * params["norm2.weight"] + params["norm2.bias"]
    show("norm2", g)
    return u + np.maximum(0, g @ params["ffn.w_1"]) @ params["ffn.w_2"]
