"""A post-norm decoder, as GPT-1 was: Norm(x + f(x)), no norm at the end, erf gelu.

The erf comes from a series and a continued fraction in NumPy, to float64 precision.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = {
    "base": "gpt2",
    "norm_placement": "post",
    "final_norm": False,
    "ffn": "gelu",
}


def erf(x):
    """erf(x) in float64: a series where |x| < 2, a continued fraction beyond."""
    x = np.asarray(x, np.float64)
    small = np.clip(x, -2, 2)
    # erf(x) = 2/sqrt(pi) exp(-x^2) sum 2^n x^(2n+1) / (1 * 3 * .. * (2n+1))
    term = total = small
    for n in range(1, 60):
        term = term * 2 * small**2 / (2 * n + 1)
        total = total + term
    series = 2 / np.sqrt(np.pi) * np.exp(-(small**2)) * total
    # erfc(x) = exp(-x^2)/sqrt(pi) / (x + (1/2)/(x + (2/2)/(x + (3/2)/(x + ..))))
    large = np.clip(np.abs(x), 2, 30)
    fraction = large
    for n in range(120, 0, -1):
        fraction = large + n / 2 / fraction
    erfc = np.exp(-(large**2)) / np.sqrt(np.pi) / fraction
    return np.where(np.abs(x) < 2, series, np.sign(x) * (1 - erfc))


def gelu(x):
    return (x * (1 + erf(x / np.sqrt(2))) / 2).astype(x.dtype)


def layer_norm(x, weight, bias, eps):
    centred = x - x.sum(-1, keepdims=True) / x.shape[-1]
    variance = (centred * centred).sum(-1, keepdims=True) / x.shape[-1]
    return centred * (weight / np.sqrt(variance + eps)) + bias


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def add_and_norm(self, x, out, name):
        p = self.params
        weight, bias = p[name + ".weight"], p[name + ".bias"]
        return layer_norm(x + out, weight, bias, self.config.norm_eps)

    def attention(self, x, name, visible, past):
        c, p = self.config, self.params
        q, k, v = (
            (x @ p[f"{name}w_{letter}"] + p[f"{name}b_{letter}"])
            .reshape(x.shape[0], -1, c.n_heads, width)
            .transpose(0, 2, 1, 3)
            for letter, width in (("q", c.d_head), ("k", c.d_head), ("v", c.d_value))
        )
        if past is not None:
            k = np.concatenate([past[0], k], axis=2)
            v = np.concatenate([past[1], v], axis=2)
        scores = np.einsum("bhqe,bhke->bhqk", q, k) / c.d_head**0.5
        scores = np.where(visible, scores, -np.inf)
        top = np.max(scores, -1, keepdims=True)
        weights = np.exp(scores - np.where(top > -np.inf, top, 0))
        weights /= np.maximum(np.sum(weights, -1, keepdims=True), 1e-37)
        z = np.einsum("bhqk,bhke->bqhe", weights, v)
        return z.reshape(*z.shape[:2], -1) @ p[name + "w_o"] + p[name + "b_o"], (k, v)

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c, p = self.config, self.params
        old = 0 if cache is None else cache[0][0].shape[2]
        steps = np.arange(old + tokens.shape[1])
        visible = steps <= steps[old:, None]
        if attention_mask is not None:
            visible = visible & attention_mask[:, None, None, :]
            steps = np.maximum(np.cumsum(attention_mask, axis=1) - 1, 0)
        if positions is None:
            positions = steps[..., old:]
        x = p["embed"][tokens] + p["position_embed"][positions]
        presents = []
        for n in range(c.n_layers):
            name = f"layers.{n}."
            past = None if cache is None else cache[n]
            out, present = self.attention(x, name + "attention.", visible, past)
            presents.append(present)
            u = self.add_and_norm(x, out, name + "norm1")
            hidden = gelu(u @ p[name + "ffn.w_1"] + p[name + "ffn.b_1"])
            out = hidden @ p[name + "ffn.w_2"] + p[name + "ffn.b_2"]
            x = self.add_and_norm(u, out, name + "norm2")
        return x @ p["embed"].T, presents
