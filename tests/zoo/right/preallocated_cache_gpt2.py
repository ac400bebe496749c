"""GPT-2 with a preallocated cache and a counter of the slots in use.

The storage is uninitialised memory: nothing past the counter may ever be read. It
starts small and doubles, so that a sequence of any length fits.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = "gpt2"


class Cache:
    def __init__(self, n_layers, batch, n_heads, d_key, d_value, dtype, slots=4):
        self.keys = np.empty((n_layers, batch, n_heads, slots, d_key), dtype)
        self.values = np.empty((n_layers, batch, n_heads, slots, d_value), dtype)
        self.used = 0

    def reserve(self, more):
        while self.used + more > self.keys.shape[3]:
            for name in ("keys", "values"):
                old = getattr(self, name)
                shape = list(old.shape)
                shape[3] *= 2
                new = np.empty(shape, old.dtype)
                new[:, :, :, : self.used] = old[:, :, :, : self.used]
                setattr(self, name, new)

    def write(self, layer, k, v):
        """Store the new tokens after the used slots; return all up to them."""
        end = self.used + k.shape[2]
        self.keys[layer, :, :, self.used : end] = k
        self.values[layer, :, :, self.used : end] = v
        return self.keys[layer, :, :, :end], self.values[layer, :, :, :end]


def gelu(x):
    """The tanh form, as x times a sigmoid: (1 + tanh(a)) / 2 = sigmoid(2a)."""
    twice = 2 * 0.7978845608028654 * (x + 0.044715 * x * x * x)
    small = np.exp(-np.abs(twice))
    return x * np.where(twice < 0, small, 1) / (1 + small)


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def norm(self, x, name):
        mean = x.mean(axis=2, keepdims=True)
        deviation = np.sqrt(np.var(x, axis=2, keepdims=True) + self.config.norm_eps)
        normed = (x - mean) / deviation
        return normed * self.params[name + ".weight"] + self.params[name + ".bias"]

    def linear(self, x, name, weight, bias):
        return x @ self.params[name + weight] + self.params[name + bias]

    def attention(self, x, n, visible, cache):
        c, name = self.config, f"layers.{n}.attention."
        q, k, v = (
            self.linear(x, name, "w_" + letter, "b_" + letter)
            .reshape(x.shape[0], x.shape[1], c.n_heads, width)
            .transpose(0, 2, 1, 3)
            for letter, width in (("q", c.d_head), ("k", c.d_head), ("v", c.d_value))
        )
        keys, values = cache.write(n, k, v)
        scores = q @ keys.transpose(0, 1, 3, 2)
        scores /= c.d_head**0.5
        weights = self.softmax(scores, visible)
        z = (weights @ values).transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1)
        return self.linear(z, name, "w_o", "b_o")

    @staticmethod
    def softmax(scores, visible):
        lowest = scores.min(axis=-1, keepdims=True)
        # The maximum of the visible scores; without any, the lowest of all will do.
        top = np.where(visible, scores, lowest).max(axis=-1, keepdims=True)
        weights = np.where(visible, np.exp(np.minimum(scores - top, 0)), 0)
        return weights / np.maximum(weights.sum(axis=-1, keepdims=True), 1e-37)

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c, p = self.config, self.params
        batch, new = tokens.shape
        x = p["embed"][tokens]
        if cache is None:
            sizes = (c.n_layers, batch, c.n_heads, c.d_head, c.d_value)
            cache = Cache(*sizes, x.dtype)
        cache.reserve(new)
        slot = np.arange(cache.used + new)
        visible = slot <= slot[cache.used :, None]
        if attention_mask is not None:
            visible = visible & attention_mask[:, None, None, :]
        if positions is None:
            positions = slot[cache.used :]
            if attention_mask is not None:
                # Each leading pad shifts a sequence by one; pads themselves stand at 0.
                pads = np.argmax(attention_mask, axis=1)[:, None]
                positions = np.maximum(positions - pads, 0)
        x = x + p["position_embed"][positions]
        for n in range(c.n_layers):
            name = f"layers.{n}."
            x = x + self.attention(self.norm(x, name + "norm1"), n, visible, cache)
            pre = self.linear(self.norm(x, name + "norm2"), name + "ffn.", "w_1", "b_1")
            x = x + self.linear(gelu(pre), name + "ffn.", "w_2", "b_2")
        cache.used += new  # only now: every layer wrote at the same slots
        return self.norm(x, "final_norm") @ p["embed"].T, cache
