"""Positions count the padding too: np.arange for every row, also one that starts with pads."""

import numpy as np

framework = "numpy"
variant = "gpt2"


class Norm:
    def __init__(self, weight, bias, eps):
        self.weight, self.bias, self.eps = weight, bias, eps

    def __call__(self, x):
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + self.eps)
        return x * self.weight + self.bias


class Dense:
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def __call__(self, x):
        return np.matmul(x, self.weight) + self.bias


class Layer:
    def __init__(self, params, number, config):
        name = f"layers.{number}."
        self.q, self.k, self.v, self.o = (
            Dense(params[f"{name}attention.w_{c}"], params[f"{name}attention.b_{c}"]) for c in "qkvo"
        )
        self.up, self.down = (Dense(params[f"{name}ffn.w_{c}"], params[f"{name}ffn.b_{c}"]) for c in "12")
        self.first, self.second = (
            Norm(params[f"{name}norm{c}.weight"], params[f"{name}norm{c}.bias"], config.norm_eps)
            for c in "12"
        )
        self.heads = config.n_heads

    def split(self, x):
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).swapaxes(1, 2)

    def __call__(self, x, kv, visible):
        h = self.first(x)
        k, v = self.split(self.k(h)), self.split(self.v(h))
        if kv:
            k, v = np.concatenate([kv[0], k], 2), np.concatenate([kv[1], v], 2)
        q = self.split(self.q(h))
        s = q @ k.swapaxes(2, 3) / q.shape[-1] ** 0.5
        s = np.where(visible, s, -1e30)
        w = np.exp(s - s.max(-1, keepdims=True))
        z = (w / w.sum(-1, keepdims=True) @ v).swapaxes(1, 2)
        x = x + self.o(z.reshape(*x.shape[:2], -1))
        h = self.up(self.second(x))
        h = h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3))) / 2
        return x + self.down(h), (k, v)


class Model:
    def __init__(self, config, params):
        self.tokens, self.places = params["embed"], params["position_embed"]
        self.layers = [Layer(params, n, config) for n in range(config.n_layers)]
        self.last = Norm(params["final_norm.weight"], params["final_norm.bias"], config.norm_eps)

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        new = tokens.shape[1]
        past = cache[0][0].shape[2] if cache else 0
        if attention_mask is None:
            attention_mask = np.ones((tokens.shape[0], past + new), dtype=bool)
        if positions is None:
            positions = np.arange(past, past + new)  # WRONG
        visible = np.tri(new, past + new, past, dtype=bool) & attention_mask[:, None, None]
        x = self.tokens[tokens] + self.places[positions]
        kept = []
        for n, layer in enumerate(self.layers):
            x, kv = layer(x, cache[n] if cache else None, visible)
            kept.append(kv)
        return self.last(x) @ self.tokens.T, kept
