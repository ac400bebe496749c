"""GPT-2 whose mask fills the scores with finfo.min instead of -inf.

A row without a visible key then has equal scores, so its output is the mean of V over
all keys (fully_masked = "mean"), as in many models of the transformers library.
Padded queries have such rows; nothing reads them.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = "gpt2"
fully_masked = "mean"


def softmax(x, axis):
    x = np.exp(x - np.max(x, axis, keepdims=True))
    return x / np.sum(x, axis, keepdims=True)


def attention(q, k, v, mask=None, is_causal=False):
    n_rep = q.shape[1] // k.shape[1]
    if n_rep > 1:  # [B, Hkv, T, D] -> [B, Hkv, n_rep, T, D] -> [B, H, T, D]
        k, v = (
            np.broadcast_to(y[:, :, None], (*y.shape[:2], n_rep, *y.shape[2:])).reshape(
                y.shape[0], -1, *y.shape[2:]
            )
            for y in (k, v)
        )
    scores = np.matmul(q, np.transpose(k, (0, 1, 3, 2))) * q.shape[-1] ** -0.5
    tq, tk = scores.shape[-2:]
    allowed = np.ones((1, 1, tq, tk), dtype=bool)
    if is_causal:
        allowed = allowed & (np.arange(tk)[None] <= np.arange(tk - tq, tk)[:, None])
    if mask is not None:
        allowed = allowed & mask
    # One fill for both masks: adding two minima would overflow to -inf.
    scores = np.where(allowed, scores, np.finfo(scores.dtype).min)
    weights = softmax(scores, -1)
    return np.matmul(weights, v), weights


def layer_norm(x, weight, bias, eps):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + eps) * weight + bias


def new_gelu(x):
    return 0.5 * x * (1.0 + np.tanh((2.0 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))


def split(x, n_heads):
    return x.reshape(*x.shape[:2], n_heads, x.shape[2] // n_heads).transpose(0, 2, 1, 3)


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def linear(self, x, name, suffix):
        weight, bias = self.params[f"{name}.w_{suffix}"], self.params[f"{name}.b_{suffix}"]
        return x @ weight + bias

    def norm(self, x, name):
        weight, bias = self.params[f"{name}.weight"], self.params[f"{name}.bias"]
        return layer_norm(x, weight, bias, self.config.norm_eps)

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c, p = self.config, self.params
        cache = {} if cache is None else cache
        new = tokens.shape[1]
        past = cache["length"] if cache else 0
        mask = None
        if attention_mask is not None:
            mask = attention_mask[:, None, None, :]
        if positions is None:
            if attention_mask is None:
                positions = np.arange(past, past + new)
            else:
                positions = attention_mask.astype(np.int64).cumsum(-1) - 1
                positions[~attention_mask] = 0
                positions = positions[:, -new:]
        hidden = p["embed"][tokens] + p["position_embed"][positions]
        present = {"length": past + new}
        for n in range(c.n_layers):
            name = f"layers.{n}"
            normed = self.norm(hidden, f"{name}.norm1")
            q, k, v = (split(self.linear(normed, f"{name}.attention", letter), c.n_heads) for letter in "qkv")
            if cache:
                k = np.concatenate((cache[n][0], k), axis=2)
                v = np.concatenate((cache[n][1], v), axis=2)
            present[n] = (k, v)
            z, _ = attention(q, k, v, mask=mask, is_causal=True)
            concat = z.transpose(0, 2, 1, 3).reshape(*tokens.shape, -1)
            hidden = hidden + self.linear(concat, f"{name}.attention", "o")
            pre = self.linear(self.norm(hidden, f"{name}.norm2"), f"{name}.ffn", "1")
            hidden = hidden + self.linear(new_gelu(pre), f"{name}.ffn", "2")
        return self.norm(hidden, "final_norm") @ p["embed"].T, present
