"""Per-sequence positions meet the head axis: [B, T, 1] angles broadcast against [B, H, T, Dh]."""

import numpy as np

framework = "numpy"
variant = "llama"


def multi_head_attention(x, params, config, attention_mask=None, positions=None, tap=None):
    B, T, _ = x.shape
    H, G, Dh = config.n_heads, config.n_kv_heads, config.d_head
    if positions is None:
        positions = np.arange(T) if attention_mask is None else np.maximum(attention_mask.cumsum(1) - 1, 0)
    inv = config.rope_theta ** (-np.arange(0, Dh, 2) / Dh)
    angle = positions[..., None] * inv  # WRONG
    rotor = np.cos(angle) + 1j * np.sin(angle)

    def rotate(a):
        c = (a[..., : Dh // 2] + 1j * a[..., Dh // 2 :]) * rotor
        return np.concatenate([c.real, c.imag], axis=-1).astype(a.dtype)

    q = (x @ params["w_q"]).reshape(B, T, H, Dh).transpose(0, 2, 1, 3)
    k = (x @ params["w_k"]).reshape(B, T, G, Dh).transpose(0, 2, 1, 3)
    v = (x @ params["w_v"]).reshape(B, T, G, -1).transpose(0, 2, 1, 3)
    q_rot, k_rot = rotate(q), rotate(k)
    if tap:
        for name, tensor in (("q", q), ("k", k), ("v", v), ("q_rot", q_rot), ("k_rot", k_rot)):
            tap(name, tensor)

    q_rot = q_rot.reshape(B, G, H // G, T, Dh)
    s = np.einsum("bgrqd,bgkd->bgrqk", q_rot, k_rot) / Dh**0.5
    ok = np.tri(T, dtype=bool)[None]
    if attention_mask is not None:
        ok = ok & attention_mask[:, None, :]
    s = np.where(ok[:, None, None], s, -1e30)
    w = np.exp(s - s.max(-1, keepdims=True))
    z = np.einsum("bgrqk,bgkd->bqgrd", w / w.sum(-1, keepdims=True), v)
    return z.reshape(B, T, -1) @ params["w_o"]
