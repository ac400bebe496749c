"""eps outside the root in all norms, so a small embedding is not damped as it should be."""

import numpy as np

framework = "numpy"
variant = "gpt2"


class Model:
    def __init__(self, config, params):
        self.layers, self.heads, self.eps = config.n_layers, config.n_heads, config.norm_eps
        self.w = params

    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / (np.sqrt(np.mean(x * x, -1, keepdims=True)) + self.eps)  # WRONG
        return x * self.w[name + ".weight"] + self.w[name + ".bias"]

    def heads_first(self, x, name, letter):
        y = x @ self.w[f"{name}.w_{letter}"] + self.w[f"{name}.b_{letter}"]
        return np.stack(np.split(y, self.heads, axis=-1))

    def forward(self, tokens, attention_mask=None, positions=None, tap=None):
        note = tap or (lambda name, tensor: None)
        w, t = self.w, tokens.shape[1]
        real = np.ones(tokens.shape, bool) if attention_mask is None else attention_mask
        place = np.maximum(real.cumsum(1) - 1, 0) if positions is None else positions
        x = w["embed"][tokens] + w["position_embed"][place]
        sees = np.tri(t, dtype=bool) & real[:, None, :]
        for n in range(self.layers):
            at = f"layers.{n}"
            note(at + ".x", x)
            h = self.norm(x, at + ".norm1")
            note(at + ".norm1", h)
            q, k, v = (self.heads_first(h, at + ".attention", c) for c in "qkv")
            s = np.where(sees, q @ k.swapaxes(2, 3) / q.shape[-1] ** 0.5, -1e30)
            p = np.exp(s - s.max(-1, keepdims=True))
            z = np.concatenate(list(p / p.sum(-1, keepdims=True) @ v), axis=-1)
            note(at + ".concat", z)
            x = x + z @ w[at + ".attention.w_o"] + w[at + ".attention.b_o"]
            note(at + ".u", x)
            h = self.norm(x, at + ".norm2")
            note(at + ".norm2", h)
            h = h @ w[at + ".ffn.w_1"] + w[at + ".ffn.b_1"]
            note(at + ".ffn_pre", h)
            h = h / 2 + h / 2 * np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3))
            x = x + h @ w[at + ".ffn.w_2"] + w[at + ".ffn.b_2"]
            note(at + ".y", x)
        return self.norm(x, "final_norm") @ w["embed"].T
