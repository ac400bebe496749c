"""Interleaved RoPE computed in the half layout, by permuting the columns of w_q, w_k.

Within each head the even columns come first, then the odd ones, so pair (2i, 2i + 1)
becomes (i, i + Dh/2). This is how checkpoints of the interleaved layout are converted.
q and k are permuted alike, so every score stays as it was. There is no `rope` and no
tap: only scores and what follows from them are comparable.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = {"base": "llama", "rope_layout": "interleaved"}


def half_layout(w, n_heads):
    w = w.reshape(w.shape[0], n_heads, -1, 2)  # [D, heads, Dh/2, 2]
    return w.swapaxes(2, 3).reshape(w.shape[0], -1)


class Model:
    def __init__(self, config, params):
        self.c = config
        self.p = dict(params)
        for n in range(config.n_layers):
            for letter, heads in (("q", config.n_heads), ("k", config.n_kv_heads)):
                name = f"layers.{n}.attention.w_{letter}"
                self.p[name] = half_layout(params[name], heads)

    def rms_norm(self, x, name):
        x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.c.norm_eps)
        return x * self.p[name + ".weight"]

    def rotate(self, x, cos, sin):
        half = self.c.d_head // 2
        swapped = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
        return x * cos + swapped * sin

    def attention(self, x, n, cos, sin, hidden, past):
        c, p, name = self.c, self.p, f"layers.{n}.attention."
        q, k, v = (
            (x @ p[name + w]).reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)
            for w, heads in (
                ("w_q", c.n_heads),
                ("w_k", c.n_kv_heads),
                ("w_v", c.n_kv_heads),
            )
        )
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        if past is not None:
            k = np.concatenate([past[0], k], axis=2)
            v = np.concatenate([past[1], v], axis=2)
        shared = c.n_heads // c.n_kv_heads
        keys, values = np.repeat(k, shared, axis=1), np.repeat(v, shared, axis=1)
        scores = q @ keys.transpose(0, 1, 3, 2) / c.d_head**0.5
        scores = np.ma.masked_array(scores, np.broadcast_to(hidden, scores.shape))
        top = scores.max(axis=-1, keepdims=True).filled(0)
        weights = np.exp((scores - top).filled(-np.inf))  # hidden keys: weight 0
        weights = weights / np.fmax(weights.sum(axis=-1, keepdims=True), 1e-37)
        z = (weights @ values).transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1)
        return z @ p[name + "w_o"], (k, v)

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c, p = self.c, self.p
        new, past = tokens.shape[1], 0 if cache is None else cache["length"]
        if attention_mask is None:
            attention_mask = np.ones((len(tokens), past + new), bool)
        if positions is None:
            positions = np.maximum(np.cumsum(attention_mask, axis=1) - 1, 0)[:, past:]
        index = np.arange(past + new)
        hidden = ~attention_mask[:, None, None] | (index > index[past:, None])

        x = p["embed"][tokens]
        inverse = c.rope_theta ** (-np.arange(0, c.d_head, 2) / c.d_head)
        angle = np.atleast_2d(positions)[:, None, :, None] * np.tile(inverse, 2)
        cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
        new_cache = {"length": past + new}
        for n in range(c.n_layers):
            out, new_cache[n] = self.attention(
                self.rms_norm(x, f"layers.{n}.norm1"),
                n,
                cos,
                sin,
                hidden,
                None if cache is None else cache[n],
            )
            x = x + out
            h = self.rms_norm(x, f"layers.{n}.norm2")
            gate = h @ p[f"layers.{n}.ffn.w_gate"]
            gate = gate / (1 + np.exp(-np.maximum(gate, -80)))
            h = gate * (h @ p[f"layers.{n}.ffn.w_up"])
            x = x + h @ p[f"layers.{n}.ffn.w_down"]
        return self.rms_norm(x, "final_norm") @ p["lm_head"], new_cache
