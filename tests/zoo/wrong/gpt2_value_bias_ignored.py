"""The value projection has no bias, as in Whisper's keys: a bias flag not honoured for one matrix."""

import numpy as np

framework = "numpy"
variant = "gpt2"


class Model:
    def __init__(self, config, params):
        self.c = config
        self.p = params

    def ln(self, x, name):
        mean = x.mean(axis=-1, keepdims=True)
        var = np.square(x - mean).mean(axis=-1, keepdims=True)
        return (x - mean) / np.sqrt(var + self.c.norm_eps) * self.p[name + ".weight"] + self.p[name + ".bias"]

    def attn(self, x, a, bias, tap):
        p, H = self.p, self.c.n_heads
        q = x @ p[a + "w_q"] + p[a + "b_q"]
        k = x @ p[a + "w_k"] + p[a + "b_k"]
        v = x @ p[a + "w_v"]  # WRONG
        q, k, v = (np.array(np.split(t, H, axis=-1)) for t in (q, k, v))
        if tap:
            for name, t in zip("qkv", (q, k, v), strict=True):
                tap(name, t.swapaxes(0, 1))
        s = q @ k.swapaxes(-1, -2) / np.sqrt(self.c.d_head) + bias
        s = s - s.max(-1, keepdims=True)
        w = np.exp(s) / np.exp(s).sum(-1, keepdims=True)
        if tap:
            tap("weights", w.swapaxes(0, 1))
        return np.concatenate(list(w @ v), axis=-1) @ p[a + "w_o"] + p[a + "b_o"]

    def mlp(self, x, f):
        h = x @ self.p[f + "w_1"] + self.p[f + "b_1"]
        h = 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * np.power(h, 3))))
        return h @ self.p[f + "w_2"] + self.p[f + "b_2"]

    def forward(self, tokens, attention_mask=None, positions=None, tap=None):
        B, T = tokens.shape
        real = np.ones((B, T), dtype=bool) if attention_mask is None else attention_mask
        if positions is None:
            positions = np.maximum(np.add.accumulate(real.astype(np.int64), axis=1) - 1, 0)
        bias = np.where(np.tri(T, dtype=bool) & real[:, None], 0, -1e30)
        x = self.p["embed"][tokens] + self.p["position_embed"][positions]
        for i in range(self.c.n_layers):
            inner = (lambda name, t, i=i: tap(f"layers.{i}.{name}", t)) if tap else None
            x = x + self.attn(self.ln(x, f"layers.{i}.norm1"), f"layers.{i}.attention.", bias, inner)
            x = x + self.mlp(self.ln(x, f"layers.{i}.norm2"), f"layers.{i}.ffn.")
        return self.ln(x, "final_norm") @ self.p["embed"].T
