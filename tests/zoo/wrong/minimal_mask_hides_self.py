"""The triangle excludes its diagonal, so a token does not read itself: j < i instead of j <= i."""

import numpy as np

framework = "numpy"
variant = "minimal"


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def forward(self, tokens, attention_mask=None, tap=None):
        p, cfg = self.params, self.config
        tap = tap or (lambda name, tensor: None)
        x = p["embed"][tokens]
        for n in range(cfg.n_layers):
            x = self.layer(x, f"layers.{n}", attention_mask, tap)
        x = self.norm(x, "final_norm")
        tap("final", x)
        return x @ p["lm_head"]

    def layer(self, x, name, attention_mask, tap):
        tap(name + ".x", x)
        a = self.norm(x, name + ".norm1")
        tap(name + ".norm1", a)
        a = self.attention(a, name, attention_mask, tap)
        tap(name + ".attn_out", a)
        u = x + a
        tap(name + ".u", u)
        f = np.maximum(self.norm(u, name + ".norm2") @ self.params[name + ".ffn.w_1"], 0)
        tap(name + ".ffn_hidden", f)
        y = u + f @ self.params[name + ".ffn.w_2"]
        tap(name + ".y", y)
        return y

    def attention(self, a, name, attention_mask, tap):
        b, t, _ = a.shape
        q, k, v = (
            (a @ self.params[f"{name}.attention.w_{c}"])
            .reshape(b, t, self.config.n_heads, -1)
            .transpose(0, 2, 1, 3)
            for c in "qkv"
        )
        s = np.matmul(q, k.transpose(0, 1, 3, 2)) / self.config.d_head**0.5
        i, j = np.indices((t, t))
        visible = np.broadcast_to(j < i, s.shape)  # WRONG
        if attention_mask is not None:
            visible = visible & attention_mask[:, None, None]
        tap(name + ".scores", s)
        best = np.max(s, axis=-1, keepdims=True, where=visible, initial=-1e30)
        e = np.where(visible, np.exp(np.minimum(s - best, 0)), 0)
        w = e / np.maximum(e.sum(-1, keepdims=True), 1e-30)
        tap(name + ".weights", w)
        z = np.matmul(w, v)
        tap(name + ".z", z)
        return z.transpose(0, 2, 1, 3).reshape(b, t, -1) @ self.params[name + ".attention.w_o"]

    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.config.norm_eps)
        return x * self.params[name + ".weight"] + self.params[name + ".bias"]
