"""One preallocated buffer serves keys and values: two names for the same np.zeros."""

import numpy as np

framework = "numpy"
variant = "minimal"


class Cache:
    def __init__(self, layers, shape):
        self.keys = np.zeros((layers, *shape), dtype=np.float32)
        self.values = self.keys  # WRONG
        self.length = 0

    def write(self, layer, k, v):
        stop = self.length + k.shape[2]
        self.keys[layer, :, :, self.length : stop, : k.shape[3]] = k
        self.values[layer, :, :, self.length : stop, : v.shape[3]] = v
        if self.length == 0:
            return k, v
        return self.keys[layer, :, :, :stop, : k.shape[3]], self.values[layer, :, :, :stop, : v.shape[3]]


def norm(x, params, name, eps):
    deviation = x - x.mean(-1, keepdims=True)
    return (
        deviation / np.sqrt((deviation**2).mean(-1, keepdims=True) + eps) * params[name + ".weight"]
        + params[name + ".bias"]
    )


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c, p = self.config, self.params
        B, T = tokens.shape
        if cache is None:
            cache = Cache(c.n_layers, (B, c.n_heads, 1024, max(c.d_head, c.d_value)))
        reach = cache.length + np.arange(T)
        x = p["embed"][tokens]
        for i in range(c.n_layers):
            n = f"layers.{i}."
            h = norm(x, p, n + "norm1", c.norm_eps)
            q, k, v = (
                (h @ p[f"{n}attention.w_{s}"]).reshape(B, T, c.n_heads, -1).swapaxes(1, 2) for s in "qkv"
            )
            keys, values = cache.write(i, k, v)
            s = np.einsum("bhqd,bhkd->bhqk", q, keys) / c.d_head**0.5
            hidden = np.arange(keys.shape[2]) > reach[:, None]
            if attention_mask is not None:
                hidden = hidden | ~attention_mask[:, None, None]
            s = np.where(hidden, -1e30, s)
            w = np.exp(s - s.max(-1, keepdims=True))
            z = np.einsum("bhqk,bhkd->bqhd", w / w.sum(-1, keepdims=True), values)
            x = x + z.reshape(B, T, -1) @ p[n + "attention.w_o"]
            x = x + np.maximum(norm(x, p, n + "norm2", c.norm_eps) @ p[n + "ffn.w_1"], 0) @ p[n + "ffn.w_2"]
        cache.length += T
        return norm(x, p, "final_norm", c.norm_eps) @ p["lm_head"], cache
