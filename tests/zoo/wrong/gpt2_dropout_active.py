"""Dropout stays on in inference: the training flag defaults to True."""

import numpy as np

framework = "numpy"
variant = "gpt2"

generator = np.random.default_rng()


def dropout(x, rate, training=True):
    if not training:
        return x
    return x * (generator.random(x.shape) >= rate) / (1 - rate)


def norm(x, weight, bias, eps):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(-1, keepdims=True) + eps) * weight + bias


def causal_attention(q, k, v, real):
    scores = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    keep = np.tri(*scores.shape[-2:], dtype=bool)
    if real is not None:
        keep = keep & real[:, None, None, :]
    scores = np.where(keep, scores, -1e30)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def forward(self, tokens, attention_mask=None, positions=None):
        c, p = self.config, self.params
        B, T = tokens.shape
        if positions is None:
            positions = np.arange(T) if attention_mask is None else (attention_mask.cumsum(1) - 1).clip(0)
        x = p["embed"][tokens] + p["position_embed"][positions]
        x = dropout(x, 0.1)  # WRONG
        for i in range(c.n_layers):
            b = f"layers.{i}."
            h = norm(x, p[b + "norm1.weight"], p[b + "norm1.bias"], c.norm_eps)
            q, k, v = (
                (h @ p[f"{b}attention.w_{n}"] + p[f"{b}attention.b_{n}"])
                .reshape(B, T, c.n_heads, -1)
                .transpose(0, 2, 1, 3)
                for n in "qkv"
            )
            z = causal_attention(q, k, v, attention_mask).transpose(0, 2, 1, 3).reshape(B, T, -1)
            x = x + z @ p[b + "attention.w_o"] + p[b + "attention.b_o"]
            h = norm(x, p[b + "norm2.weight"], p[b + "norm2.bias"], c.norm_eps)
            h = h @ p[b + "ffn.w_1"] + p[b + "ffn.b_1"]
            h = h * (0.5 + 0.5 * np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h * h * h)))
            x = x + h @ p[b + "ffn.w_2"] + p[b + "ffn.b_2"]
        return norm(x, p["final_norm.weight"], p["final_norm.bias"], c.norm_eps) @ p["embed"].T
