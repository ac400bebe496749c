"""No mask once there is a cache, right for single tokens and a leak inside a chunk of several."""

import numpy as np

framework = "numpy"
variant = "minimal"


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def forward(self, tokens, attention_mask=None, positions=None, cache=None, tap=None):
        tap = tap or (lambda name, tensor: None)
        cfg, p = self.config, self.params
        batch, fresh = tokens.shape
        seen = 0 if cache is None else cache["length"]
        visible = np.tri(fresh, dtype=bool)
        if cache is not None:
            visible = np.ones((fresh, seen + fresh), dtype=bool)  # WRONG
        if attention_mask is not None:
            visible = visible & attention_mask[:, None, None, :]
        new = {"length": seen + fresh}
        x = p["embed"][tokens]
        for n in range(cfg.n_layers):
            name = f"layers.{n}."
            tap(name + "x", x)
            h = self.norm(x, name + "norm1")
            q, k, v = (
                np.swapaxes((h @ p[name + "attention.w_" + c]).reshape(batch, fresh, cfg.n_heads, -1), 1, 2)
                for c in "qkv"
            )
            tap(name + "k", k)
            tap(name + "v", v)
            if seen:
                k = np.append(cache[n][0], k, axis=2)
                v = np.append(cache[n][1], v, axis=2)
            new[n] = [k, v]
            tap(name + "keys", k)
            tap(name + "values", v)
            s = q @ np.swapaxes(k, 2, 3) / np.sqrt(np.float32(cfg.d_head))
            tap(name + "scores", s)
            s = np.where(visible, s, np.float32(-1e30))
            tap(name + "masked_scores", s)
            s = np.exp(s - s.max(-1, keepdims=True))
            s = s / s.sum(-1, keepdims=True)
            tap(name + "weights", s)
            z = np.swapaxes(s @ v, 1, 2).reshape(batch, fresh, -1)
            x = x + z @ p[name + "attention.w_o"]
            tap(name + "u", x)
            x = x + np.maximum(self.norm(x, name + "norm2") @ p[name + "ffn.w_1"], 0) @ p[name + "ffn.w_2"]
            tap(name + "y", x)
        return self.norm(x, "final_norm") @ p["lm_head"], new

    def norm(self, x, name):
        weight, bias = self.params[name + ".weight"], self.params[name + ".bias"]
        scale = np.reciprocal(np.sqrt(x.var(-1, keepdims=True) + self.config.norm_eps))
        return (x - x.mean(-1, keepdims=True)) * scale * weight + bias
