"""Llama that caches its keys as they are and rotates all of them whenever they are read.

The cache keeps the position of every key beside it. Also, the query is not rotated by
its position p but each key by its distance to the first query, which is the same: only
differences of positions reach a score.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = "llama"


def rms_norm(x, weight, eps):
    return x / np.sqrt(np.average(x**2, axis=-1)[..., None] + eps) * weight


def rotate(x, angle):
    """x [B, T, heads, Dh], angle [B, T, 1, Dh/2]."""
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    a, b = np.split(x, 2, axis=3)
    return np.concatenate((a * cos - b * sin, a * sin + b * cos), axis=3)


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def attention(self, x, n, queries_at, keys_at, visible, past):
        c, p = self.config, self.params
        q, k, v = (
            (x @ p[f"layers.{n}.attention.w_{letter}"]).reshape(*x.shape[:2], heads, width)
            for letter, heads, width in (
                ("q", c.n_heads, c.d_head),
                ("k", c.n_kv_heads, c.d_head),
                ("v", c.n_kv_heads, c.d_value),
            )
        )
        if past is not None:
            k, v = (np.concatenate(pair, axis=1) for pair in zip(past, (k, v)))
        frequency = c.rope_theta ** (-2 * np.arange(c.d_head // 2) / c.d_head)
        origin = queries_at[:, :1]
        q = rotate(q, (queries_at - origin)[:, :, None, None] * frequency)
        keys = rotate(k, (keys_at - origin)[:, :, None, None] * frequency)

        z = np.zeros((*x.shape[:2], c.n_heads, c.d_value), x.dtype)
        for b in range(len(x)):
            for head in range(c.n_heads):
                kv_head = head * c.n_kv_heads // c.n_heads
                scores = q[b, :, head] @ keys[b, :, kv_head].T * c.d_head**-0.5
                for t, row in enumerate(scores):
                    seen = visible[b, t]
                    if seen.any():
                        weights = np.exp(row[seen] - row[seen].max())
                        mixed = weights @ v[b, seen, kv_head]
                        z[b, t, head] = mixed / weights.sum()
        z = z.reshape(*x.shape[:2], -1)
        return z @ p[f"layers.{n}.attention.w_o"], (k, v)

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c, p = self.config, self.params
        batch, new = tokens.shape
        keys_at, past = cache or (np.zeros((batch, 0), np.int64), [None] * c.n_layers)
        old = keys_at.shape[1]
        if attention_mask is None:
            attention_mask = np.ones((batch, old + new), bool)
        if positions is None:
            positions = np.maximum(attention_mask.cumsum(1) - 1, 0)[:, old:]
        queries_at = np.broadcast_to(positions, (batch, new))
        keys_at = np.concatenate([keys_at, queries_at], axis=1)
        visible = np.tri(new, old + new, old, dtype=bool) & attention_mask[:, None]

        x = p["embed"][tokens]
        present = []
        for n in range(c.n_layers):
            normed = rms_norm(x, p[f"layers.{n}.norm1.weight"], c.norm_eps)
            out, kv = self.attention(normed, n, queries_at, keys_at, visible, past[n])
            present.append(kv)
            x = x + out
            normed = rms_norm(x, p[f"layers.{n}.norm2.weight"], c.norm_eps)
            gate, up, down = (p[f"layers.{n}.ffn.w_{w}"] for w in ("gate", "up", "down"))
            gate = normed @ gate
            half = np.tanh(0.5 * gate)
            x = x + (0.5 * (gate + gate * half) * (normed @ up)) @ down
        final = rms_norm(x, p["final_norm.weight"], c.norm_eps)
        return final @ p["lm_head"], (keys_at, present)
