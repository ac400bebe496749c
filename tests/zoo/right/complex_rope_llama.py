"""Llama with interleaved RoPE as a multiplication of complex numbers.

Features 2i and 2i + 1 are the real and the imaginary part; a rotation is a product
with exp(1j * angle), as in the original Llama code. `rope` is graded in this layout.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = {"base": "llama", "rope_layout": "interleaved"}


def rope(x, positions, theta):
    d_head = x.shape[-1]
    angle = np.asarray(positions)[..., None] * theta ** -(np.arange(0, d_head, 2) / d_head)
    if angle.ndim == 3:
        angle = angle[:, None]
    complex_type = np.result_type(x.dtype, np.complex64)
    turn = np.exp(1j * angle).astype(complex_type)
    z = np.ascontiguousarray(x).view(complex_type)  # [B, H, T, Dh/2]
    return (z * turn).view(x.dtype)


def rms_norm(x, weight, eps):
    return x * np.reciprocal(np.sqrt(np.mean(x * x, -1, keepdims=True) + eps)) * weight


def silu(x):
    return x / 2 * (1 + np.tanh(x / 2))


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def attention(self, x, name, positions, visible, past):
        c, p = self.config, self.params
        batch, time = x.shape[:2]

        def heads(letter, count):
            y = x @ p[f"{name}.w_{letter}"]
            return y.reshape(batch, time, count, -1).transpose(0, 2, 1, 3)

        q = rope(heads("q", c.n_heads), positions, c.rope_theta)
        k = rope(heads("k", c.n_kv_heads), positions, c.rope_theta)
        v = heads("v", c.n_kv_heads)
        if past is not None:
            k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
        z = []
        for kv_head, queries in enumerate(np.split(q, c.n_kv_heads, axis=1)):
            scores = queries @ k[:, kv_head, None].swapaxes(-1, -2) / c.d_head**0.5
            # Each row has a visible key but those of padding, which get zeros.
            scores = np.where(visible, scores, -np.inf)
            rows = np.isfinite(scores).any(-1, keepdims=True)
            scores = np.where(rows, scores, 0)
            exponentials = np.exp(scores - scores.max(-1, keepdims=True))
            weights = rows * exponentials / exponentials.sum(-1, keepdims=True)
            z.append(weights @ v[:, kv_head, None])
        z = np.concatenate(z, axis=1).transpose(0, 2, 1, 3).reshape(batch, time, -1)
        return z @ p[name + ".w_o"], (k, v)

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c, p = self.config, self.params
        time = tokens.shape[1]
        past = 0 if cache is None else cache[0][0].shape[2]
        causal = np.arange(past + time) <= past + np.arange(time)[:, None]
        visible = causal[None, None]
        if attention_mask is not None:
            visible = visible & attention_mask[:, None, None, :]
            if positions is None:
                positions = np.maximum(np.cumsum(attention_mask, 1)[:, past:], 1) - 1
        elif positions is None:
            positions = past + np.arange(time)
        x = p["embed"][tokens]
        pairs = []
        for n in range(c.n_layers):
            norms = [p[f"layers.{n}.norm{i}.weight"] for i in (1, 2)]
            gate, up, down = (p[f"layers.{n}.ffn.w_{w}"] for w in ("gate", "up", "down"))
            out, pair = self.attention(
                rms_norm(x, norms[0], c.norm_eps),
                f"layers.{n}.attention",
                positions,
                visible,
                None if cache is None else cache[n],
            )
            pairs.append(pair)
            x = x + out
            h = rms_norm(x, norms[1], c.norm_eps)
            x = x + (silu(h @ gate) * (h @ up)) @ down
        return rms_norm(x, p["final_norm.weight"], c.norm_eps) @ p["lm_head"], pairs
