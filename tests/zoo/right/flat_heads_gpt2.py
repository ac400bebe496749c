"""GPT-2 with heads folded into the batch, [B*H, T, Dh], and a padded query that reads
itself.

The diagonal of the mask is always open, so no row is ever without a key: this model
avoids fully masked queries (fully_masked = "avoids"). A real token sees itself anyway,
and what padding computes is read by nobody.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = "gpt2"
fully_masked = "avoids"


def softmax(x, axis):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return np.divide(e, np.sum(e, axis=axis, keepdims=True))


def layer_norm(x, weight, bias, eps):
    m = np.mean(x, axis=-1, keepdims=True)
    s = np.sqrt(np.mean(np.square(x - m), axis=-1, keepdims=True) + eps)
    return np.multiply((x - m) / s, weight) + bias


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * x * (1 + 0.044715 * x * x)))


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def affine(self, x, name):
        """``name`` is like layers.0.attention.*_q: a matrix and its bias."""
        return x @ self.params[name.replace("*", "w")] + self.params[name.replace("*", "b")]

    def norm(self, x, name):
        weight, bias = self.params[name + ".weight"], self.params[name + ".bias"]
        return layer_norm(x, weight, bias, self.config.norm_eps)

    def fold(self, x):
        batch, time, _ = x.shape
        x = x.reshape(batch, time, self.config.n_heads, -1).transpose(0, 2, 1, 3)
        return x.reshape(batch * self.config.n_heads, time, -1)

    def unfold(self, z):
        folded, time, d_value = z.shape
        z = z.reshape(-1, self.config.n_heads, time, d_value).transpose(0, 2, 1, 3)
        return z.reshape(-1, time, self.config.n_heads * d_value)

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c, p = self.config, self.params
        batch, time = tokens.shape
        past = cache["k"][0].shape[1] if cache else 0
        real = attention_mask
        if real is None:
            real = np.ones((batch, past + time), dtype=bool)
        if positions is None:
            positions = np.maximum(real.cumsum(axis=1) - 1, 0)[:, past:]
        row, column = np.indices((time, past + time))
        visible = real[:, None, :] & (column < row + past)
        visible = visible | (column == row + past)
        visible = np.repeat(visible, c.n_heads, axis=0)  # [B*H, T, Tk]

        x = p["embed"][tokens] + p["position_embed"][positions]
        present = {"k": [], "v": []}
        for n in range(c.n_layers):
            name = f"layers.{n}."
            normed = self.norm(x, name + "norm1")
            q, k, v = (self.fold(self.affine(normed, f"{name}attention.*_{letter}")) for letter in "qkv")
            if cache:
                k = np.concatenate([cache["k"][n], k], axis=1)
                v = np.concatenate([cache["v"][n], v], axis=1)
            present["k"].append(k)
            present["v"].append(v)
            scores = q @ k.transpose(0, 2, 1) / c.d_head**0.5
            weights = softmax(np.where(visible, scores, -np.inf), -1)
            concat = self.unfold(weights @ v)
            x = x + self.affine(concat, name + "attention.*_o")
            pre = self.affine(self.norm(x, name + "norm2"), name + "ffn.*_1")
            x = x + self.affine(gelu_tanh(pre), name + "ffn.*_2")
        return self.norm(x, "final_norm") @ p["embed"].T, present
