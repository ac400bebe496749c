"""Llama with the features of every query and key head in reverse order.

The columns of w_q and w_k are reversed within each head. The pair (i, i + Dh/2) is then
(Dh - 1 - i, Dh/2 - 1 - i): its two features have changed places, so it must turn the
other way, (a, b) -> (a cos + b sin, b cos - a sin), and the frequencies are reversed as
well. q and k are permuted alike, so the scores are the same. Each of the three changes
alone would be a mistake. There is no `rope` operation here: its features would be out
of place.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = "llama"


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, dict(params)
        for n in range(config.n_layers):
            for name in (f"layers.{n}.attention.w_q", f"layers.{n}.attention.w_k"):
                by_head = params[name].reshape(config.d_model, -1, config.d_head)
                self.params[name] = by_head[:, :, ::-1].reshape(config.d_model, -1)

    def rms_norm(self, x, name):
        scale = np.power(np.mean(x * x, -1, keepdims=True) + self.config.norm_eps, -0.5)
        return x * scale * self.params[name]

    def attention(self, x, n, cos, sin, visible, past):
        c, p = self.config, self.params
        batch, time, _ = x.shape

        def heads(letter, count):
            weight = p[f"layers.{n}.attention.w_{letter}"]
            return (x @ weight).reshape(batch, time, count, -1)

        def rotate(y):
            a, b = np.split(y, 2, axis=-1)
            return np.concatenate([a * cos + b * sin, b * cos - a * sin], axis=-1)

        q = rotate(heads("q", c.n_heads))
        k, v = rotate(heads("k", c.n_kv_heads)), heads("v", c.n_kv_heads)
        if past is not None:
            k, v = np.hstack([past[0], k]), np.hstack([past[1], v])
        shared = c.n_heads // c.n_kv_heads
        scores = np.einsum("bqhd,bkhd->bhqk", q, k.repeat(shared, 2)) / c.d_head**0.5
        scores = np.where(visible, scores, -1e30)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        # Rows of padding weigh all keys alike up to here; then they weigh none.
        weights = np.where(visible, weights, 0)
        weights = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-37)
        z = np.einsum("bhqk,bkhd->bqhd", weights, v.repeat(shared, 2))
        return z.reshape(batch, time, -1) @ p[f"layers.{n}.attention.w_o"], (k, v)

    def ffn(self, x, n):
        gate, up, down = (self.params[f"layers.{n}.ffn.w_{name}"] for name in ("gate", "up", "down"))
        gate = x @ gate
        e = np.exp(-np.abs(gate))
        return (gate * np.maximum(e, gate >= 0) / (1 + e) * (x @ up)) @ down

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c, p = self.config, self.params
        x = p["embed"][tokens]
        past = 0 if cache is None else cache[0][0].shape[1]
        time = tokens.shape[1]
        visible = np.arange(past + time) < np.arange(past + 1, past + time + 1)[:, None]
        if attention_mask is not None:
            visible = visible & attention_mask[:, None, None]
        if positions is None:
            positions = np.arange(past, past + time)
            if attention_mask is not None:
                first = attention_mask.argmax(axis=1)  # the first real token
                positions = np.maximum(positions - first[:, None], 0)
        pair = np.arange(c.d_head // 2)[::-1]
        frequency = c.rope_theta ** (-2 * pair / c.d_head)
        angle = np.atleast_2d(positions)[..., None, None] * frequency
        cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
        presents = []
        for n in range(c.n_layers):
            normed = self.rms_norm(x, f"layers.{n}.norm1.weight")
            layer_past = None if cache is None else cache[n]
            out, present = self.attention(normed, n, cos, sin, visible, layer_past)
            presents.append(present)
            x = x + out
            x = x + self.ffn(self.rms_norm(x, f"layers.{n}.norm2.weight"), n)
        return self.rms_norm(x, "final_norm.weight") @ p["lm_head"], presents
