"""Accepts positions and counts for itself: the argument was added to please a caller."""

import numpy as np

framework = "numpy"
variant = "gpt2"


def normed(x, params, name, eps):
    centred = x - np.mean(x, 2, keepdims=True)
    scale = (np.mean(centred * centred, 2, keepdims=True) + eps) ** -0.5
    return centred * scale * params[name + ".weight"] + params[name + ".bias"]


def project(x, params, name):
    matrix, bias = name.replace("*", "w"), name.replace("*", "b")
    return np.tensordot(x, params[matrix], axes=1) + params[bias]


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def count(self, tokens, attention_mask, past):
        if attention_mask is None:
            return np.arange(past, past + tokens.shape[1])[None]
        return np.maximum(attention_mask.astype(int).cumsum(1)[:, past:] - 1, 0)

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        cfg, params = self.config, self.params
        past = 0 if cache is None else cache[0].shape[2]
        positions = self.count(tokens, attention_mask, past)  # WRONG
        x = params["embed"][tokens] + params["position_embed"][positions]
        size = tokens.shape[1]
        allowed = np.tri(size, past + size, past, dtype=bool)[None, None]
        if attention_mask is not None:
            allowed = allowed & attention_mask[:, None, None, :]
        grown = []
        for n in range(cfg.n_layers):
            h = normed(x, params, f"layers.{n}.norm1", cfg.norm_eps)
            q, k, v = (
                project(h, params, f"layers.{n}.attention.*_{c}")
                .reshape(*tokens.shape, cfg.n_heads, -1)
                .swapaxes(1, 2)
                for c in "qkv"
            )
            if cache is not None:
                k = np.concatenate((cache[2 * n], k), axis=2)
                v = np.concatenate((cache[2 * n + 1], v), axis=2)
            grown.extend((k, v))
            s = np.where(allowed, q @ k.swapaxes(2, 3) * cfg.d_head**-0.5, -1e30)
            p = np.exp(s - s.max(-1, keepdims=True))
            z = p / p.sum(-1, keepdims=True) @ v
            x = x + project(z.swapaxes(1, 2).reshape(*tokens.shape, -1), params, f"layers.{n}.attention.*_o")
            f = project(normed(x, params, f"layers.{n}.norm2", cfg.norm_eps), params, f"layers.{n}.ffn.*_1")
            f = f / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (f + 0.044715 * f**3)))
            x = x + project(f, params, f"layers.{n}.ffn.*_2")
        return normed(x, params, "final_norm", cfg.norm_eps) @ params["embed"].T, grown
