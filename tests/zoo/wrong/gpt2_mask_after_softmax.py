"""The mask is multiplied onto finished weights: the rows of all but the last query sum to less than 1."""

import numpy as np

framework = "numpy"
variant = "gpt2"


def affine(x, p, module, letter):
    return np.matmul(x, p[f"{module}.w_{letter}"]) + p[f"{module}.b_{letter}"]


def norm(x, p, name, eps):
    d = x - np.mean(x, axis=-1, keepdims=True)
    return p[name + ".weight"] * d / np.sqrt(np.mean(d**2, axis=-1, keepdims=True) + eps) + p[name + ".bias"]


def shares(scores, keep):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) * keep  # WRONG


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c, p = self.config, self.params
        past = 0 if cache is None else cache[0][0].shape[1]
        total = past + tokens.shape[1]
        real = np.ones((tokens.shape[0], total), dtype=bool) if attention_mask is None else attention_mask
        if positions is None:
            positions = np.maximum(real.cumsum(axis=1) - 1, 0)[:, past:]
        keep = np.tri(tokens.shape[1], total, past, dtype=bool) & real[:, None, None, :]
        x = p["embed"][tokens] + p["position_embed"][positions]
        new = []
        for i in range(c.n_layers):
            a = f"layers.{i}.attention"
            h = norm(x, p, f"layers.{i}.norm1", c.norm_eps)
            q, k, v = (affine(h, p, a, s).reshape(*tokens.shape, c.n_heads, -1) for s in "qkv")
            if cache is not None:
                k, v = np.concatenate([cache[i][0], k], axis=1), np.concatenate([cache[i][1], v], axis=1)
            new.append((k, v))
            s = np.einsum("bqhd,bkhd->bhqk", q, k) / np.float32(c.d_head) ** 0.5
            z = np.einsum("bhqk,bkhd->bqhd", shares(s, keep), v)
            x = x + affine(z.reshape(*tokens.shape, -1), p, a, "o")
            f = affine(norm(x, p, f"layers.{i}.norm2", c.norm_eps), p, f"layers.{i}.ffn", "1")
            f = 0.5 * f * (1 + np.tanh(np.sqrt(2 / np.pi) * (f + 0.044715 * f**3)))
            x = x + affine(f, p, f"layers.{i}.ffn", "2")
        return norm(x, p, "final_norm", c.norm_eps) @ p["embed"].T, new
