"""A non-causal encoder: the minimal structure in which every token reads every other.

Nothing is left to decode, so there is no cache. Batches are computed one sequence at
a time, on its real tokens alone; the logits of padding are zeros.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = {"base": "minimal", "causal": False}


def softmax(x, axis):
    exponentials = np.exp(x - x.max(axis, keepdims=True))
    return exponentials / exponentials.sum(axis, keepdims=True)


def layer_norm(x, weight, bias, eps):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight + bias


def ffn(x, w_1, b_1, w_2, b_2):
    return np.where((h := x @ w_1 + b_1) > 0, h, 0) @ w_2 + b_2


def self_attention(x, params, config):
    """x [T, D] of one sequence."""
    q, k, v = (np.stack(np.hsplit(x @ params["w_" + letter], config.n_heads)) for letter in "qkv")
    weights = softmax(q @ k.swapaxes(1, 2) / config.d_head**0.5, 2)
    return np.hstack(list(weights @ v)) @ params["w_o"]


def multi_head_attention(x, params, config, attention_mask=None):
    if attention_mask is None:
        attention_mask = np.ones(x.shape[:2], bool)
    out = np.zeros_like(x)
    for sequence, real, result in zip(x, attention_mask, out):
        result[real] = self_attention(sequence[real], params, config)
    return out


def block(x, params, config, attention_mask=None):
    def norm(y, name):
        weight, bias = params[name + ".weight"], params[name + ".bias"]
        return layer_norm(y, weight, bias, config.norm_eps)

    inner = {name[-3:]: params[name] for name in params if "attention" in name}
    u = x + multi_head_attention(norm(x, "norm1"), inner, config, attention_mask)
    return u + ffn(norm(u, "norm2"), params["ffn.w_1"], 0, params["ffn.w_2"], 0)


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params
        self.layers = []
        for n in range(config.n_layers):
            start = f"layers.{n}."
            names = [name for name in params if name.startswith(start)]
            self.layers.append({name.replace(start, "", 1): params[name] for name in names})

    def forward(self, tokens, attention_mask=None):
        p = self.params
        x = p["embed"][tokens]
        for layer in self.layers:
            x = block(x, layer, self.config, attention_mask=attention_mask)
        weight, bias = p["final_norm.weight"], p["final_norm.bias"]
        logits = layer_norm(x, weight, bias, self.config.norm_eps) @ p["lm_head"]
        if attention_mask is not None:
            logits *= attention_mask[..., None]
        return logits
