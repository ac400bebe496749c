"""SiLU on the up projection: w1 and w3 exchanged while the checkpoint was converted."""

import numpy as np

framework = "numpy"
variant = "llama"


class SwiGLU:
    def __init__(self, p):
        self.w1, self.w3, self.w2 = p["ffn.w_gate"], p["ffn.w_up"], p["ffn.w_down"]

    def __call__(self, x):
        a, b = x @ self.w1, x @ self.w3
        hidden = a * self.silu(b)  # WRONG
        return hidden @ self.w2

    @staticmethod
    def silu(z):
        return z * (1 / (1 + np.exp(-z)))


class Attention:
    def __init__(self, p, c):
        self.p, self.c = p, c

    def project(self, x, letter, heads):
        return (x @ self.p["attention.w_" + letter]).reshape(x.shape[0], x.shape[1], heads, -1).swapaxes(1, 2)

    def rotate(self, x, positions):
        half = self.c.d_head // 2
        a = positions[..., None, :, None] / self.c.rope_theta ** (np.arange(half) / half)
        a = np.concatenate([a, a], axis=-1)
        return (x * np.cos(a) + np.concatenate([-x[..., half:], x[..., :half]], axis=-1) * np.sin(a)).astype(
            x.dtype
        )

    def __call__(self, x, positions, hidden):
        c = self.c
        q = self.rotate(self.project(x, "q", c.n_heads), positions)
        k = self.rotate(self.project(x, "k", c.n_kv_heads), positions)
        v = self.project(x, "v", c.n_kv_heads)
        k, v = (np.repeat(a, c.n_heads // c.n_kv_heads, axis=1) for a in (k, v))
        s = np.where(hidden, -np.inf, q @ k.swapaxes(2, 3) / np.sqrt(c.d_head))
        top = s.max(-1, keepdims=True)
        e = np.exp(s - np.where(np.isfinite(top), top, 0))
        z = e / np.maximum(e.sum(-1, keepdims=True), 1e-30) @ v
        return z.swapaxes(1, 2).reshape(x.shape[0], x.shape[1], -1) @ self.p["attention.w_o"]


class Model:
    def __init__(self, config, params):
        self.eps, self.params, self.layers = config.norm_eps, params, []
        for i in range(config.n_layers):
            p = {k[len(f"layers.{i}.") :]: v for k, v in params.items() if k.startswith(f"layers.{i}.")}
            self.layers.append((p["norm1.weight"], Attention(p, config), p["norm2.weight"], SwiGLU(p)))

    def norm(self, x, weight):
        return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + self.eps) * weight

    def forward(self, tokens, attention_mask=None, positions=None):
        n = tokens.shape[1]
        positions = np.arange(n) if positions is None else np.asarray(positions)
        hidden = np.triu(np.ones((n, n), dtype=bool), 1)
        if attention_mask is not None:
            hidden = hidden | ~attention_mask[:, None, None]
        x = self.params["embed"][tokens]
        for gain1, attention, gain2, feed in self.layers:
            x = x + attention(self.norm(x, gain1), positions, hidden)
            x = x + feed(self.norm(x, gain2))
        return (self.norm(x, self.params["final_norm.weight"]) @ self.params["lm_head"]).astype(x.dtype)
