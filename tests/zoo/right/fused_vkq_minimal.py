"""The minimal structure with one fused projection in the order [v | k | q].

The cache holds the fused values and keys of every token, not yet split into heads,
as one array [layers, B, Tk, Hkv * (Dv + Dh)]. There is no position and no padding.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = "minimal"


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params
        self.fused = []
        for n in range(config.n_layers):
            name = f"layers.{n}.attention."
            w_v, w_k, w_q = (params[name + w] for w in ("w_v", "w_k", "w_q"))
            self.fused.append(np.hstack([w_v, w_k, w_q]))

    def norm(self, x, name):
        eps = self.config.norm_eps
        x = x - np.mean(x, axis=-1, keepdims=True)
        x = x * (np.mean(x * x, axis=-1, keepdims=True) + eps) ** -0.5
        return x * self.params[name + ".weight"] + self.params[name + ".bias"]

    def split(self, x, heads):
        return np.moveaxis(x.reshape(*x.shape[:2], heads, -1), 2, 1)

    def attention(self, n, x, past):
        c = self.config
        v_width, k_width = c.n_kv_heads * c.d_value, c.n_kv_heads * c.d_head
        fused = x @ self.fused[n]
        vk, q = fused[..., : v_width + k_width], fused[..., v_width + k_width :]
        vk = np.concatenate([past, vk], axis=1)

        q = self.split(q, c.n_heads)
        values = self.split(vk[..., :v_width], c.n_kv_heads)
        keys = self.split(vk[..., v_width:], c.n_kv_heads)
        scores = q @ keys.transpose(0, 1, 3, 2) * c.d_head**-0.5

        # The number of keys that query i may read is (Tk - Tq) + i + 1.
        tq, tk = scores.shape[-2:]
        may_read = np.arange(tk - tq + 1, tk + 1).reshape(tq, 1)
        scores[:, :, np.arange(tk) >= may_read] = -np.inf

        scores -= scores.max(axis=-1, keepdims=True)
        weights = np.exp(scores)
        weights /= weights.sum(axis=-1, keepdims=True)
        z = np.moveaxis(weights @ values, 1, 2)
        z = z.reshape(*z.shape[:2], c.n_heads * c.d_value)
        return z @ self.params[f"layers.{n}.attention.w_o"], vk

    def forward(self, tokens, cache=None):
        c, p = self.config, self.params
        x = np.take(p["embed"], tokens, axis=0)
        if cache is None:
            width = c.n_kv_heads * (c.d_value + c.d_head)
            cache = np.empty((c.n_layers, len(tokens), 0, width), dtype=x.dtype)
        grown = []
        for n in range(c.n_layers):
            name = f"layers.{n}."
            attn_out, vk = self.attention(n, self.norm(x, name + "norm1"), cache[n])
            grown.append(vk)
            x = x + attn_out
            hidden = self.norm(x, name + "norm2") @ p[name + "ffn.w_1"]
            x = x + np.where(hidden > 0, hidden, 0) @ p[name + "ffn.w_2"]
        return self.norm(x, "final_norm") @ p["lm_head"], np.stack(grown)
