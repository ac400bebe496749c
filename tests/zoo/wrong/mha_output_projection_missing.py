"""Returns the heads side by side and never multiplies by Wo: a lecture's slide ends at concat."""

import numpy as np

framework = "numpy"
variant = "llama"


def turn(a, positions, theta):
    # a: [B, T, H, Dh]
    half = a.shape[-1] // 2
    angle = positions[..., None, None] * float(theta) ** (-np.arange(half) / half)
    c, s = np.cos(angle), np.sin(angle)
    return np.concatenate([a[..., :half] * c - a[..., half:] * s, a[..., :half] * s + a[..., half:] * c], -1)


def multi_head_attention(x, params, config, attention_mask=None, positions=None):
    b, t = x.shape[:2]
    h, g, dh, dv = config.n_heads, config.n_kv_heads, config.d_head, config.d_value
    where = np.arange(t) if positions is None else positions
    q = turn((x @ params["w_q"]).reshape(b, t, h, dh), where, config.rope_theta)
    k = turn((x @ params["w_k"]).reshape(b, t, g, dh), where, config.rope_theta)
    v = (x @ params["w_v"]).reshape(b, t, g, dv)

    columns = []
    for head in range(h):
        source = head * g // h
        s = np.einsum("bqd,bkd->bqk", q[:, :, head], k[:, :, source]) / dh**0.5
        hidden = np.triu(np.ones((t, t), dtype=bool), 1)[None]
        if attention_mask is not None:
            hidden = hidden | ~attention_mask[:, None, :]
        s[np.broadcast_to(hidden, s.shape)] = -1e30
        p = np.exp(s - s.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        columns.append(p @ v[:, :, source])
    return np.concatenate(columns, axis=-1).astype(x.dtype)  # WRONG
