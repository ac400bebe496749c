"""GPT-2 that keeps [B, T, H, Dh] inside, with scores [B, Tq, Tk, H].

No head axis is ever moved to the front, so the softmax runs over axis 2. Taps are
transposed to the canonical [B, H, ..] where they are made.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = "gpt2"
fully_masked = "zero"


def layer_norm(x, weight, bias, eps):
    centred = x - x.mean(-1, keepdims=True)
    scale = np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    return centred / scale * weight + bias


def gelu_tanh(x):
    cubic = x + 0.044715 * np.power(x, 3)
    return x / 2 + x / 2 * np.tanh((2 / np.pi) ** 0.5 * cubic)


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def project(self, x, name, letter, heads):
        out = x @ self.params[f"{name}w_{letter}"] + self.params[f"{name}b_{letter}"]
        return out.reshape(x.shape[0], x.shape[1], heads, -1)

    def attention(self, x, name, visible, past, tap):
        c = self.config
        q = self.project(x, name + "attention.", "q", c.n_heads)
        k = self.project(x, name + "attention.", "k", c.n_heads)
        v = self.project(x, name + "attention.", "v", c.n_heads)
        for letter, tensor in (("q", q), ("k", k), ("v", v)):
            tap(name + letter, tensor.swapaxes(1, 2))
        if past is not None:
            k = np.concatenate([past[0], k], axis=1)
            v = np.concatenate([past[1], v], axis=1)
        tap(name + "keys", k.swapaxes(1, 2))
        tap(name + "values", v.swapaxes(1, 2))

        # [B, Tq, 1, H, Dh] * [B, 1, Tk, H, Dh], summed over Dh: [B, Tq, Tk, H].
        scores = (q[:, :, None] * k[:, None]).sum(axis=-1) / c.d_head**0.5
        tap(name + "scores", scores.transpose(0, 3, 1, 2))
        weights = np.zeros_like(scores)
        shifted = scores - np.max(scores, axis=2, keepdims=True, where=visible, initial=-3e38)
        # exp runs only where the key is visible; elsewhere the weight stays zero.
        np.exp(shifted, out=weights, where=visible)
        total = weights.sum(axis=2, keepdims=True)
        weights = np.divide(weights, total, out=weights, where=total > 0)
        tap(name + "weights", weights.transpose(0, 3, 1, 2))

        z = (weights[..., None] * v[:, None]).sum(axis=2)  # [B, Tq, H, Dv]
        tap(name + "z", z.swapaxes(1, 2))
        concat = z.reshape(z.shape[0], z.shape[1], -1)
        tap(name + "concat", concat)
        w_o, b_o = (self.params[name + "attention." + o] for o in ("w_o", "b_o"))
        return concat @ w_o + b_o, (k, v)

    def forward(self, tokens, attention_mask=None, positions=None, cache=None, tap=None):
        tap = tap or (lambda name, tensor: None)
        c, p = self.config, self.params
        batch, time = tokens.shape
        past = 0 if cache is None else cache[0][0].shape[1]
        total = past + time
        real = np.ones((batch, total), bool) if attention_mask is None else attention_mask
        if positions is None:
            positions = np.maximum(np.cumsum(real, axis=1) - 1, 0)[:, past:]
        earlier = np.arange(total)[None, :] <= np.arange(past, total)[:, None]
        visible = (real[:, None, :] & earlier)[..., None]  # [B, Tq, Tk, 1]

        def norm(x, name):
            return layer_norm(x, p[name + ".weight"], p[name + ".bias"], c.norm_eps)

        x = p["embed"][tokens] + p["position_embed"][positions]
        new_cache = []
        for n in range(c.n_layers):
            name = f"layers.{n}."
            tap(name + "x", x)
            normed = norm(x, name + "norm1")
            tap(name + "norm1", normed)
            past_layer = None if cache is None else cache[n]
            out, present = self.attention(normed, name, visible, past_layer, tap)
            new_cache.append(present)
            x = x + out
            tap(name + "u", x)
            pre = norm(x, name + "norm2") @ p[name + "ffn.w_1"] + p[name + "ffn.b_1"]
            x = x + gelu_tanh(pre) @ p[name + "ffn.w_2"] + p[name + "ffn.b_2"]
            tap(name + "y", x)
        logits = norm(x, "final_norm") @ p["embed"].T
        tap("logits", logits)
        return logits, new_cache
