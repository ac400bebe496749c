"""Llama that returns the logits of the last position only, [B, 1, V].

Generation needs no others, so the last layer computes its queries, its FFN and the
projection to the vocabulary for one position alone. Its keys and values are still
those of every position.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = "llama"


def normalise(x, weight, eps):
    return x / (np.mean(np.square(x), axis=-1, keepdims=True) + eps) ** 0.5 * weight


def rotate_half(x):
    left, right = np.split(x, 2, axis=-1)
    return np.concatenate([-right, left], axis=-1)


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def cos_sin(self, positions, dtype):
        """[B or 1, 1, T, Dh], the angles twice over, as rotate_half wants them."""
        c = self.config
        inverse = 1.0 / c.rope_theta ** (np.arange(0, c.d_head, 2) / c.d_head)
        angles = np.atleast_2d(positions)[:, None, :, None] * inverse
        angles = np.concatenate([angles, angles], axis=-1)
        return np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)

    def heads(self, x, weight, count):
        flat = x @ weight
        return flat.reshape(*flat.shape[:2], count, -1).swapaxes(1, 2)

    def attention(self, x, n_queries, name, cos, sin, visible, past):
        """The last ``n_queries`` of x read all of x and of the past."""
        c, p = self.config, self.params
        q = self.heads(x[:, -n_queries:], p[name + "w_q"], c.n_heads)
        k = self.heads(x, p[name + "w_k"], c.n_kv_heads)
        v = self.heads(x, p[name + "w_v"], c.n_kv_heads)
        q = q * cos[..., -n_queries:, :] + rotate_half(q) * sin[..., -n_queries:, :]
        k = k * cos + rotate_half(k) * sin
        if past is not None:
            k, v = (np.concatenate(pair, axis=2) for pair in zip(past, (k, v)))
        present = (k, v)

        # A key/value head serves a run of neighbouring query heads.
        kv_head = np.arange(c.n_heads) // (c.n_heads // c.n_kv_heads)
        k, v = k[:, kv_head], v[:, kv_head]
        scores = np.matmul(q, k.swapaxes(2, 3)) / c.d_head**0.5
        visible = visible[..., -n_queries:, :]
        scores = np.where(visible, scores, -np.inf)
        top = scores.max(axis=-1, keepdims=True)
        top[~np.isfinite(top)] = 0  # a padded query: exp(-inf) = 0 everywhere
        weights = np.exp(scores - top)
        weights = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-30)
        z = np.matmul(weights, v).swapaxes(1, 2)
        return z.reshape(*z.shape[:2], -1) @ p[name + "w_o"], present

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c, p = self.config, self.params
        batch, time = tokens.shape
        past_time = cache[0][0].shape[2] if cache is not None else 0
        total = past_time + time
        if attention_mask is None:
            attention_mask = np.ones((batch, total), bool)
        if positions is None:
            positions = (attention_mask.cumsum(axis=1) - 1).clip(0)[:, past_time:]
        visible = ~np.triu(np.ones((time, total), bool), 1 + past_time)
        visible = visible & attention_mask[:, None, None]

        x = p["embed"][tokens]
        cos, sin = self.cos_sin(positions, x.dtype)
        presents = []
        for n in range(c.n_layers):
            name = f"layers.{n}."
            n_queries = time if n < c.n_layers - 1 else 1
            normed = normalise(x, p[name + "norm1.weight"], c.norm_eps)
            past = cache[n] if cache is not None else None
            attended, present = self.attention(
                normed, n_queries, name + "attention.", cos, sin, visible, past
            )
            presents.append(present)
            x = x[:, -n_queries:] + attended
            normed = normalise(x, p[name + "norm2.weight"], c.norm_eps)
            gate = normed @ p[name + "ffn.w_gate"]
            with np.errstate(over="ignore"):  # exp(-gate) = inf gives silu = -0, rightly
                gate = gate / (1 + np.exp(-gate))
            x = x + (gate * (normed @ p[name + "ffn.w_up"])) @ p[name + "ffn.w_down"]
        x = normalise(x, p["final_norm.weight"], c.norm_eps)
        return x @ p["lm_head"], presents
