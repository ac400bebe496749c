"""Returns this call's keys and values only, so each step forgets all but the step before."""

import numpy as np

framework = "numpy"
variant = "minimal"


def layer_norm(x, weight, bias, eps):
    mean = x.mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + eps) * weight + bias


def probabilities(scores):
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return scores / scores.sum(axis=-1, keepdims=True)


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def forward(self, tokens, attention_mask=None, cache=None, tap=None):
        config, get = self.config, self.params.get
        B, T = tokens.shape
        x = get("embed")[tokens]
        fresh = []
        for n in range(config.n_layers):
            p = f"layers.{n}."
            h = layer_norm(x, get(p + "norm1.weight"), get(p + "norm1.bias"), config.norm_eps)
            q = (h @ get(p + "attention.w_q")).reshape(B, T, config.n_heads, -1).transpose(0, 2, 1, 3)
            k = (h @ get(p + "attention.w_k")).reshape(B, T, config.n_heads, -1).transpose(0, 2, 1, 3)
            v = (h @ get(p + "attention.w_v")).reshape(B, T, config.n_heads, -1).transpose(0, 2, 1, 3)
            keys = k if cache is None else np.concatenate((cache[n][0], k), axis=2)
            values = v if cache is None else np.concatenate((cache[n][1], v), axis=2)
            fresh.append((k, v))  # WRONG
            visible = np.tri(T, keys.shape[2], keys.shape[2] - T, dtype=bool)
            if attention_mask is not None:
                visible = visible & attention_mask[:, None, None, -keys.shape[2] :]
            scores = q @ keys.transpose(0, 1, 3, 2) / config.d_head**0.5
            weights = probabilities(np.where(visible, scores, -1e30))
            z = (weights @ values).transpose(0, 2, 1, 3).reshape(B, T, -1)
            u = x + z @ get(p + "attention.w_o")
            h = layer_norm(u, get(p + "norm2.weight"), get(p + "norm2.bias"), config.norm_eps)
            if tap:
                tap(p + "x", x)
                tap(p + "q", q)
                tap(p + "k", k)
                tap(p + "v", v)
                tap(p + "keys", keys)
                tap(p + "values", values)
                tap(p + "weights", weights)
                tap(p + "u", u)
            x = u + np.maximum(h @ get(p + "ffn.w_1"), 0) @ get(p + "ffn.w_2")
        x = layer_norm(x, get("final_norm.weight"), get("final_norm.bias"), config.norm_eps)
        return x @ get("lm_head"), fresh
