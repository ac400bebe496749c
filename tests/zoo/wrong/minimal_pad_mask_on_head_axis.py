"""The padding mask gets one axis too few, so its batch meets the heads: tested with one sequence."""

import numpy as np

framework = "numpy"
variant = "minimal"


class Model:
    def __init__(self, config, params):
        self.n_layers, self.n_heads = config.n_layers, config.n_heads
        self.root = config.d_head**0.5
        self.eps = config.norm_eps
        self.params = params

    def norm(self, x, name):
        weight, bias = self.params[f"{name}.weight"], self.params[f"{name}.bias"]
        mean = x.mean(axis=-1, keepdims=True)
        return weight * ((x - mean) / np.sqrt(x.var(axis=-1, keepdims=True) + self.eps)) + bias

    def split(self, x):
        return x.reshape(*x.shape[:-1], self.n_heads, -1).transpose(0, 2, 1, 3)

    def forward(self, tokens, attention_mask=None, cache=None):
        T = tokens.shape[1]
        past = cache or [None] * self.n_layers
        offset = 0 if cache is None else past[0][0].shape[2]
        allowed = np.tril(np.ones((T, offset + T), dtype=bool), offset)
        if attention_mask is not None:
            allowed = allowed & attention_mask[:, None, :]  # WRONG
        x, present = self.params["embed"][tokens], []
        for i in range(self.n_layers):
            h = self.norm(x, f"layers.{i}.norm1")
            q = self.split(h @ self.params[f"layers.{i}.attention.w_q"])
            kv = [self.split(h @ self.params[f"layers.{i}.attention.w_{c}"]) for c in "kv"]
            if past[i] is not None:
                kv = [np.concatenate(both, axis=2) for both in zip(past[i], kv, strict=True)]
            present.append(kv)
            scores = q @ kv[0].swapaxes(-1, -2) / self.root
            scores = np.where(allowed, scores, np.finfo(scores.dtype).min)
            scores -= scores.max(-1, keepdims=True)
            probs = np.exp(scores)
            probs /= probs.sum(-1, keepdims=True)
            z = (probs @ kv[1]).transpose(0, 2, 1, 3).reshape(*tokens.shape, -1)
            x = x + z @ self.params[f"layers.{i}.attention.w_o"]
            h = self.norm(x, f"layers.{i}.norm2")
            h = np.maximum(h @ self.params[f"layers.{i}.ffn.w_1"], 0)
            x = x + h @ self.params[f"layers.{i}.ffn.w_2"]
        return self.norm(x, "final_norm") @ self.params["lm_head"], present
