"""A Llama with biases on q, k and v, eps 1e-6 and theta 1e6, as Qwen2 has them.

The queries are divided by sqrt(Dh) before the dot product, so the scores themselves
are never scaled; the tap `scores` is the same either way. The weights of all layers
are stacked along a leading axis, and the layers are a loop over it.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = {"base": "llama", "bias": "qkv", "norm_eps": 1e-6, "rope_theta": 1e6}

EPS, THETA = 1e-6, 1e6


def rms_norm(x, weight, eps):
    return x * (1 / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps)) * weight


def silu(x):
    return x * np.where(x > 0, 1, np.exp(np.minimum(x, 0))) / (1 + np.exp(-np.abs(x)))


def swiglu(x, w_gate, w_up, w_down):
    return np.multiply(silu(x @ w_gate), x @ w_up) @ w_down


def rope(x, positions, theta):
    half = x.shape[-1] // 2
    exponent = np.linspace(0, 1, half, endpoint=False)
    angle = np.expand_dims(positions, -1) / np.power(theta, exponent)
    angle = angle[None] if angle.ndim == 2 else angle  # [B or 1, T, Dh/2]
    cos = np.cos(angle)[:, None].astype(x.dtype)
    sin = np.sin(angle)[:, None].astype(x.dtype)
    return np.concatenate(
        [
            x[..., :half] * cos - x[..., half:] * sin,
            x[..., half:] * cos + x[..., :half] * sin,
        ],
        axis=-1,
    )


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params
        names = [name[9:] for name in params if name.startswith("layers.0.")]
        self.stacked = {
            name: np.stack([params[f"layers.{n}.{name}"] for n in range(config.n_layers)]) for name in names
        }

    def layer(self, x, w, positions, hidden_keys, past, tap):
        c = self.config
        normed = rms_norm(x, w["norm1.weight"], EPS)

        def project(letter, heads):
            out = normed @ w["attention.w_" + letter] + w["attention.b_" + letter]
            return out.reshape(out.shape[0], out.shape[1], heads, -1).swapaxes(1, 2)

        q = rope(project("q", c.n_heads), positions, THETA) / c.d_head**0.5
        k = rope(project("k", c.n_kv_heads), positions, THETA)
        v = project("v", c.n_kv_heads)
        k = np.concatenate([past[0], k], axis=2)
        v = np.concatenate([past[1], v], axis=2)

        per_kv_head = c.n_heads // c.n_kv_heads
        scores = q @ np.repeat(k, per_kv_head, 1).swapaxes(2, 3)
        tap("scores", scores)
        scores[np.broadcast_to(hidden_keys, scores.shape)] = -np.inf
        top = np.maximum(scores.max(-1, keepdims=True), np.finfo(scores.dtype).min)
        weights = np.exp(scores - top)
        total = weights.sum(-1, keepdims=True)
        weights = np.divide(weights, total, out=weights, where=total != 0)
        tap("weights", weights)
        z = (weights @ np.repeat(v, per_kv_head, 1)).swapaxes(1, 2)
        u = x + z.reshape(*z.shape[:2], -1) @ w["attention.w_o"]
        tap("u", u)
        normed = rms_norm(u, w["norm2.weight"], EPS)
        y = u + swiglu(normed, w["ffn.w_gate"], w["ffn.w_up"], w["ffn.w_down"])
        tap("y", y)
        return y, (k, v)

    def forward(self, tokens, attention_mask=None, positions=None, cache=None, tap=None):
        c, p = self.config, self.params
        x = p["embed"][tokens]
        if cache is None:
            empty = np.zeros((len(tokens), c.n_kv_heads, 0, 1), x.dtype)
            past = (empty.repeat(c.d_head, 3), empty.repeat(c.d_value, 3))
            cache = [past] * c.n_layers
        old, new = cache[0][0].shape[2], tokens.shape[1]
        hidden_keys = np.arange(old + new) > np.arange(old, old + new)[:, None]
        if attention_mask is not None:
            hidden_keys = hidden_keys | ~attention_mask[:, None, None]
        if positions is None:
            positions = np.arange(old, old + new)
            if attention_mask is not None:
                positions = np.cumsum(attention_mask, 1)[:, old:] - 1
                positions = positions * (positions > 0)
        cache = list(cache)
        for n in range(c.n_layers):
            w = {name: stack[n] for name, stack in self.stacked.items()}

            def layer_tap(name, tensor, n=n):
                if tap is not None:
                    tap(f"layers.{n}.{name}", tensor)

            x, cache[n] = self.layer(x, w, positions, hidden_keys, cache[n], layer_tap)
        return rms_norm(x, p["final_norm.weight"], EPS) @ p["lm_head"], cache
