"""Llama with a projection fused per key/value head: [q .. q k v | q .. q k v | ..].

Each group holds the query heads that share one key/value head, then that key, then
that value, as in GPT-NeoX and InternLM2. Attention works on the groups, so nothing
is repeated. Taps for q, k and v put the heads back into the canonical order.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = "llama"


def rms_norm(x, weight, eps):
    return weight * (x / np.sqrt((x**2).mean(-1, keepdims=True) + eps))


def swiglu(x, w_gate, w_up, w_down):
    gate = x @ w_gate
    sigmoid = 0.5 * (1 + np.tanh(gate / 2))
    return (gate * sigmoid * (x @ w_up)) @ w_down


def fuse(w_q, w_k, w_v, n_groups):
    """[D, H*Dh], [D, Hkv*Dh], [D, Hkv*Dv] -> [D, Hkv * (G*Dh + Dh + Dv)]."""
    d_model = w_q.shape[0]
    by_group = [w.reshape(d_model, n_groups, -1) for w in (w_q, w_k, w_v)]
    return np.concatenate(by_group, axis=2).reshape(d_model, -1)


def rotate(x, positions, theta):
    """x [B, T, Hkv, G, Dh], positions [B or 1, T]."""
    half = x.shape[-1] // 2
    frequencies = theta ** -(np.arange(half) / half)
    angles = positions[:, :, None, None, None] * frequencies
    cos, sin = (f(angles).astype(x.dtype) for f in (np.cos, np.sin))
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


class Model:
    def __init__(self, config, params):
        self.c, self.p = config, params
        self.fused = [
            fuse(
                *(params[f"layers.{n}.attention.w_{letter}"] for letter in "qkv"),
                config.n_kv_heads,
            )
            for n in range(config.n_layers)
        ]

    def attention(self, n, x, positions, visible, past, tap):
        c = self.c
        batch, time, _ = x.shape
        per_group = c.n_heads // c.n_kv_heads
        fused = (x @ self.fused[n]).reshape(batch, time, c.n_kv_heads, -1)
        q, k, v = np.split(fused, [per_group * c.d_head, (per_group + 1) * c.d_head], 3)
        if tap is not None:
            q_heads = q.reshape(batch, time, c.n_heads, c.d_head)
            for name, tensor in (("q", q_heads), ("k", k), ("v", v)):
                tap(f"layers.{n}.{name}", tensor.transpose(0, 2, 1, 3))
        q = q.reshape(batch, time, c.n_kv_heads, per_group, c.d_head)
        q = rotate(q, positions, c.rope_theta)
        k = rotate(k[:, :, :, None], positions, c.rope_theta)[:, :, :, 0]
        if past is not None:
            k = np.concatenate([past["k"], k], axis=1)
            v = np.concatenate([past["v"], v], axis=1)

        scores = np.einsum("btngd,bsnd->bngts", q, k) / c.d_head**0.5
        scores = np.where(visible[:, None, None], scores, -np.inf)
        top = scores.max(axis=-1, keepdims=True)
        weights = np.exp(scores - np.where(np.isinf(top), 0, top))
        total = weights.sum(axis=-1, keepdims=True)
        weights = weights / np.where(total == 0, 1, total)  # an empty row stays zero
        z = np.einsum("bngts,bsnd->btngd", weights, v).reshape(batch, time, -1)
        return z @ self.p[f"layers.{n}.attention.w_o"], {"k": k, "v": v}

    def forward(self, tokens, attention_mask=None, positions=None, cache=None, tap=None):
        c, p = self.c, self.p
        batch, time = tokens.shape
        past = 0 if cache is None else cache[0]["k"].shape[1]
        if attention_mask is None:
            attention_mask = np.ones((1, past + time), dtype=bool)
        if positions is None:
            positions = np.maximum(attention_mask.cumsum(1) - 1, 0)[:, past:]
        positions = np.atleast_2d(positions)
        ordered = np.arange(past + time) <= np.arange(past, past + time)[:, None]
        visible = attention_mask[:, None, :] & ordered

        x = p["embed"][tokens]
        new_cache = []
        for n in range(c.n_layers):
            name = f"layers.{n}."
            out, present = self.attention(
                n,
                rms_norm(x, p[name + "norm1.weight"], c.norm_eps),
                positions,
                visible,
                None if cache is None else cache[n],
                tap,
            )
            new_cache.append(present)
            x = x + out
            weights = (p[name + f"ffn.w_{part}"] for part in ("gate", "up", "down"))
            normed = rms_norm(x, p[name + "norm2.weight"], c.norm_eps)
            x = x + swiglu(normed, *weights)
        final = rms_norm(x, p["final_norm.weight"], c.norm_eps)
        return final @ p["lm_head"], new_cache
