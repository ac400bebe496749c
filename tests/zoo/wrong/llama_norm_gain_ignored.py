"""RMSNorm without its gain: "elementwise_affine=False" was the default of the library used."""

import numpy as np

framework = "numpy"
variant = "llama"


class RMSNorm:
    def __init__(self, weight, eps):
        self.weight = weight
        self.eps = eps

    def __call__(self, x):
        ms = np.mean(np.square(x), axis=-1, keepdims=True)
        return x / np.sqrt(ms + self.eps)  # WRONG


class Model:
    def __init__(self, config, params):
        self.config = config
        self.params = params
        self.norms = {
            name[: -len(".weight")]: RMSNorm(value, config.norm_eps)
            for name, value in params.items()
            if name.endswith(("norm1.weight", "norm2.weight")) or name == "final_norm.weight"
        }

    def cos_sin(self, positions):
        d = self.config.d_head
        angle = np.expand_dims(positions, -1) * self.config.rope_theta ** (-2.0 * np.arange(d // 2) / d)
        angle = np.expand_dims(angle, -3)
        return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)

    def rotate(self, x, cos, sin):
        left, right = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
        return np.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)

    def forward(self, tokens, attention_mask=None, positions=None, cache=None, tap=None):
        c, p = self.config, self.params
        tap = tap or (lambda name, tensor: None)
        b, t = tokens.shape
        past = cache["past"] if cache else 0
        cos, sin = self.cos_sin(np.arange(past, past + t) if positions is None else positions)
        visible = np.tri(t, past + t, past, dtype=bool)[None, None]
        if attention_mask is not None:
            visible = visible & attention_mask[:, None, None, :]
        new = {"past": past + t}
        x = p["embed"][tokens]
        for i in range(c.n_layers):
            layer = f"layers.{i}."
            tap(layer + "x", x)
            h = self.norms[layer + "norm1"](x)
            tap(layer + "norm1", h)
            q, k, v = (
                (h @ p[f"{layer}attention.w_{s}"]).reshape(b, t, -1, d).swapaxes(1, 2)
                for s, d in (("q", c.d_head), ("k", c.d_head), ("v", c.d_value))
            )
            q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
            if cache:
                k, v = (np.concatenate(two, axis=2) for two in zip(cache[i], (k, v), strict=True))
            new[i] = (k, v)
            k, v = (np.repeat(a, c.n_heads // c.n_kv_heads, axis=1) for a in (k, v))
            s = np.where(visible, q @ k.swapaxes(2, 3) / np.float32(c.d_head) ** 0.5, np.float32(-1e30))
            s = np.exp(s - s.max(axis=-1, keepdims=True))
            s /= s.sum(axis=-1, keepdims=True)
            tap(layer + "weights", s)
            u = x + (s @ v).swapaxes(1, 2).reshape(b, t, -1) @ p[layer + "attention.w_o"]
            tap(layer + "u", u)
            h = self.norms[layer + "norm2"](u)
            g = h @ p[layer + "ffn.w_gate"]
            x = u + (g / (1 + np.exp(-g)) * (h @ p[layer + "ffn.w_up"])) @ p[layer + "ffn.w_down"]
            tap(layer + "y", x)
        return self.norms["final_norm"](x) @ p["lm_head"], new
