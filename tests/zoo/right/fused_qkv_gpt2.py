"""GPT-2 with one fused projection whose columns are [q | k | v], as in `c_attn`.

The canonical matrices are joined once, in __init__, and the product is cut into
three. The cache is a list of (keys, values), and new arrays are made at each call.
"""

import math

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = "gpt2"


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def layer_norm(x, weight, bias, eps):
    mean = x.mean(axis=-1, keepdims=True)
    return weight * (x - mean) / np.sqrt(x.var(axis=-1, keepdims=True) + eps) + bias


class Block:
    def __init__(self, config, params, prefix):
        self.n_heads = config.n_heads
        self.eps = config.norm_eps
        self.p = {name[len(prefix) :]: value for name, value in params.items() if name.startswith(prefix)}
        attention = "attention."
        self.c_attn = np.concatenate([self.p[attention + "w_" + letter] for letter in "qkv"], axis=1)
        self.c_attn_bias = np.concatenate([self.p[attention + "b_" + letter] for letter in "qkv"])
        self.widths = [self.p[attention + "w_" + letter].shape[1] for letter in "qkv"]

    def heads(self, x):
        batch, time, width = x.shape
        x = x.reshape(batch, time, self.n_heads, width // self.n_heads)
        return x.transpose(0, 2, 1, 3)

    def attend(self, x, visible, past):
        fused = x @ self.c_attn + self.c_attn_bias
        cuts = np.cumsum(self.widths)[:2]
        q, k, v = (self.heads(part) for part in np.split(fused, cuts, axis=-1))
        if past is not None:
            k = np.concatenate([past[0], k], axis=-2)
            v = np.concatenate([past[1], v], axis=-2)
        scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
        scores = np.where(visible, scores, -np.inf)
        # A padded query sees nothing; let its row be zeros and its weights 1/Tk.
        scores = np.where(visible.any(axis=-1, keepdims=True), scores, 0.0)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = weights / weights.sum(axis=-1, keepdims=True)
        z = (weights @ v).transpose(0, 2, 1, 3)
        z = z.reshape(*z.shape[:2], -1)
        return z @ self.p["attention.w_o"] + self.p["attention.b_o"], (k, v)

    def __call__(self, x, visible, past):
        p = self.p
        normed = layer_norm(x, p["norm1.weight"], p["norm1.bias"], self.eps)
        attended, present = self.attend(normed, visible, past)
        x = x + attended
        normed = layer_norm(x, p["norm2.weight"], p["norm2.bias"], self.eps)
        hidden = gelu_tanh(normed @ p["ffn.w_1"] + p["ffn.b_1"])
        return x + hidden @ p["ffn.w_2"] + p["ffn.b_2"], present


class Model:
    def __init__(self, config, params):
        self.params, self.eps = params, config.norm_eps
        self.blocks = [Block(config, params, f"layers.{n}.") for n in range(config.n_layers)]

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        batch, time = tokens.shape
        past_time = cache[0][0].shape[-2] if cache else 0
        total = past_time + time
        if attention_mask is None:
            attention_mask = np.ones((batch, total), dtype=bool)
        if positions is None:
            counted = np.cumsum(attention_mask, axis=-1) - 1
            positions = np.clip(counted, 0, None)[:, past_time:]
        causal = np.tril(np.ones((time, total), dtype=bool), k=total - time)
        visible = causal & attention_mask[:, None, None, :]

        x = self.params["embed"][tokens] + self.params["position_embed"][positions]
        presents = []
        for block, past in zip(self.blocks, cache or [None] * len(self.blocks)):
            x, present = block(x, visible, past)
            presents.append(present)
        weight, bias = self.params["final_norm.weight"], self.params["final_norm.bias"]
        return layer_norm(x, weight, bias, self.eps) @ self.params["embed"].T, presents
