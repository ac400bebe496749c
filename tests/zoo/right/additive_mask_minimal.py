"""The minimal structure with an additive mask: 0 where visible, -1e9 where not.

In float32 no score comes near -1e9, so a masked weight is exactly zero. A row without
a visible key has some finite distribution or other; no convention is claimed for it,
and none has to be.
"""

import numpy as np

framework = "numpy"
variant = "minimal"  # dtype undeclared: float32


def softmax(x, axis):
    shifted = x - x.max(axis, keepdims=True)
    return np.exp(shifted - np.log(np.exp(shifted).sum(axis, keepdims=True)))


def additive(visible, dtype):
    return np.where(visible, 0, -1e9).astype(dtype)


def attention(q, k, v, mask=None, is_causal=False):
    tq, tk = q.shape[2], k.shape[2]
    group = q.shape[1] // k.shape[1]
    visible = np.ones((tq, tk), bool)
    if is_causal:
        visible = np.tril(visible, tk - tq)
    if mask is not None:
        visible = visible & mask
    k = np.stack([k] * group, axis=2).reshape(q.shape[0], q.shape[1], tk, -1)
    v = np.stack([v] * group, axis=2).reshape(q.shape[0], q.shape[1], tk, -1)
    scores = q @ k.transpose(0, 1, 3, 2) / q.shape[3] ** 0.5
    weights = softmax(scores + additive(visible, scores.dtype), -1)
    return weights @ v, weights


def layer_norm(x, weight, bias, eps):
    z = (x - x.mean(2, keepdims=True)) / np.sqrt(x.var(2, keepdims=True) + eps)
    return z * weight + bias


def ffn(x, w_1, b_1, w_2, b_2):
    hidden = x @ w_1 + b_1
    return (hidden + np.abs(hidden)) / 2 @ w_2 + b_2  # (h + |h|) / 2 is relu


class Layer:
    def __init__(self, config, params, n):
        prefix = f"layers.{n}."
        self.config = config
        self.w = {k[len(prefix) :]: v for k, v in params.items() if k.startswith(prefix)}

    def norm(self, x, name):
        weight, bias = self.w[name + ".weight"], self.w[name + ".bias"]
        return layer_norm(x, weight, bias, self.config.norm_eps)

    def __call__(self, x, mask, past):
        c, w = self.config, self.w
        normed = self.norm(x, "norm1")
        q, k, v = (
            np.array(np.split(normed @ w[f"attention.w_{letter}"], c.n_heads, -1)) for letter in "qkv"
        )  # heads first: [H, B, T, Dh]
        if past:
            k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
        q_, k_, v_ = (y.swapaxes(0, 1) for y in (q, k, v))
        z, _ = attention(q_, k_, v_, mask=mask, is_causal=True)
        concat = np.concatenate([z[:, head] for head in range(c.n_heads)], axis=-1)
        u = x + concat @ w["attention.w_o"]
        return u + ffn(self.norm(u, "norm2"), w["ffn.w_1"], 0, w["ffn.w_2"], 0), (k, v)


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params
        self.layers = [Layer(config, params, n) for n in range(config.n_layers)]

    def forward(self, tokens, attention_mask=None, cache=None):
        p = self.params
        mask = None if attention_mask is None else attention_mask[:, None, None]
        x = p["embed"][tokens]
        past = cache or [()] * len(self.layers)
        cache = []
        for layer, layer_past in zip(self.layers, past):
            x, present = layer(x, mask, layer_past)
            cache.append(present)
        weight, bias = p["final_norm.weight"], p["final_norm.bias"]
        return layer_norm(x, weight, bias, self.config.norm_eps) @ p["lm_head"], cache
