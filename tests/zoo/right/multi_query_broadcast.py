"""Llama whose query heads share keys by broadcasting alone.

q is [B, Hkv, G, T, Dh] and the keys [B, Hkv, 1, Tk, Dh]; a product over them
broadcasts, so MQA (Hkv = 1), GQA and MHA (G = 1) are one line. The positions of the
past are kept in the cache, so the padding mask is needed for the mask only.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = "llama"
fully_masked = "unmasked"


def softmax(x, axis):
    x = x - x.max(axis=axis, keepdims=True)
    return np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)


def group(q, n_kv_heads):
    batch, n_heads, tq, d_head = q.shape
    return q.reshape(batch, n_kv_heads, n_heads // n_kv_heads, tq, d_head)


def grouped_attention(q, k, v, visible):
    """q [B, Hkv, G, Tq, Dh], k and v [B, Hkv, Tk, ..], visible [.., Tq, Tk]."""
    k, v = k[:, :, None], v[:, :, None]
    scores = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    # A query that may read nothing reads everything instead.
    visible = visible | ~visible.any(axis=-1, keepdims=True)
    weights = softmax(np.where(visible, scores, -np.inf), -1)
    return weights @ v, weights


def attention(q, k, v, mask=None, is_causal=False):
    tq, tk = q.shape[2], k.shape[2]
    visible = np.ones((1, 1, 1, tq, tk), bool)
    if mask is not None and mask.shape[1] > 1:
        visible = group(mask, k.shape[1])
    elif mask is not None:
        visible = mask[:, :, None]
    if is_causal:
        offset = np.arange(tk) - np.arange(tq)[:, None]
        visible = visible & (offset <= tk - tq)
    z, weights = grouped_attention(group(q, k.shape[1]), k, v, visible)
    return z.reshape(*q.shape[:3], -1), weights.reshape(*q.shape[:3], tk)


def rope(x, positions, theta):
    """The half layout, with the positions [T] or [B, T]."""
    first, second = np.array_split(x, 2, axis=-1)
    pair = np.arange(first.shape[-1])
    angle = np.expand_dims(positions, -1) * np.exp(-2 * pair * np.log(theta) / x.shape[-1])
    if np.ndim(positions) == 2:
        angle = angle.reshape(angle.shape[0], 1, *angle.shape[1:])
    turn = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    rotated = first * turn[0] - second * turn[1], first * turn[1] + second * turn[0]
    return np.concatenate(rotated, axis=-1)


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def norm(self, x, name):
        mean_square = np.einsum("btd,btd->bt", x, x)[..., None] / x.shape[-1]
        return x / np.sqrt(mean_square + self.config.norm_eps) * self.params[name]

    def ffn(self, x, name):
        gate, up, down = (self.params[f"{name}.w_{w}"] for w in ("gate", "up", "down"))
        gated = x @ gate
        return (gated * np.exp(-np.logaddexp(0, -gated)) * (x @ up)) @ down

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c, p = self.config, self.params
        batch, new = tokens.shape
        cache = cache or {"next": np.zeros((batch, 1), np.int64), "layers": [()] * c.n_layers}
        if attention_mask is None:
            past = cache["layers"][0][0].shape[2] if cache["layers"][0] else 0
            attention_mask = np.ones((batch, past + new), bool)
        real = attention_mask[:, -new:]
        counted = np.maximum(cache["next"] + np.cumsum(real, axis=1) - 1, 0)
        if positions is None:
            positions = counted
        key = np.arange(attention_mask.shape[1])
        visible = (key <= key[-new:, None]) & attention_mask[:, None, None, None]

        x = p["embed"][tokens]
        layers = []
        for n, past in enumerate(cache["layers"]):
            name = f"layers.{n}."
            normed = self.norm(x, name + "norm1.weight")
            q, k, v = (
                np.swapaxes((normed @ p[w]).reshape(batch, new, heads, -1), 1, 2)
                for w, heads in (
                    (name + "attention.w_q", c.n_heads),
                    (name + "attention.w_k", c.n_kv_heads),
                    (name + "attention.w_v", c.n_kv_heads),
                )
            )
            q, k = rope(q, positions, c.rope_theta), rope(k, positions, c.rope_theta)
            if past:
                k, v = np.append(past[0], k, axis=2), np.append(past[1], v, axis=2)
            layers.append((k, v))
            z, _ = grouped_attention(group(q, c.n_kv_heads), k, v, visible)
            z = z.reshape(batch, c.n_heads, new, -1).swapaxes(1, 2)
            x = x + z.reshape(batch, new, -1) @ p[name + "attention.w_o"]
            x = x + self.ffn(self.norm(x, name + "norm2.weight"), name + "ffn")
        logits = self.norm(x, "final_norm.weight") @ p["lm_head"]
        counted = cache["next"] + real.sum(axis=1, keepdims=True)
        return logits, {"next": counted, "layers": layers}
