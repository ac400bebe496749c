"""The encoder carries the decoder's triangle: one attention class with the mask built in."""

import numpy as np

framework = "numpy"
variant = "vaswani"


def positional(at, d):
    rates = 1 / 10000 ** (np.arange(0, d, 2) / d)
    angles = np.multiply.outer(at, rates)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(*np.shape(at), d)


class Norm:
    def __init__(self, params, name, eps):
        self.g, self.b, self.eps = params[name + ".weight"], params[name + ".bias"], eps

    def __call__(self, x):
        z = x - x.mean(-1, keepdims=True)
        return self.g * z / np.sqrt((z * z).mean(-1, keepdims=True) + self.eps) + self.b


class Attention:
    def __init__(self, params, name, heads):
        self.heads = heads
        self.w = [(params[f"{name}.w_{c}"], params[f"{name}.b_{c}"]) for c in "qkvo"]

    def __call__(self, x, y, allowed):
        (wq, bq), (wk, bk), (wv, bv), (wo, bo) = self.w
        q, k, v = x @ wq + bq, y @ wk + bk, y @ wv + bv
        outs = []
        for qh, kh, vh in zip(*(np.split(a, self.heads, axis=-1) for a in (q, k, v)), strict=True):
            s = qh @ kh.swapaxes(1, 2) / qh.shape[-1] ** 0.5
            s = np.where(allowed, s, -1e30)
            s = np.exp(s - s.max(-1, keepdims=True))
            outs.append(s / s.sum(-1, keepdims=True) @ vh)
        return np.concatenate(outs, axis=-1) @ wo + bo


class FeedForward:
    def __init__(self, params, name):
        self.w1, self.b1, self.w2, self.b2 = (params[f"{name}.{a}"] for a in ("w_1", "b_1", "w_2", "b_2"))

    def __call__(self, x):
        return np.maximum(x @ self.w1 + self.b1, 0) @ self.w2 + self.b2


class Model:
    def __init__(self, config, params):
        self.d, self.table = config.d_model, params["embed"]
        self.encoder, self.decoder = [], []
        for i in range(config.n_layers):
            e, d = f"encoder.layers.{i}.", f"decoder.layers.{i}."
            norms = [Norm(params, e + n, config.norm_eps) for n in ("norm1", "norm2")]
            self.encoder.append(
                (Attention(params, e + "attention", config.n_heads), FeedForward(params, e + "ffn"), *norms)
            )
            norms = [Norm(params, d + n, config.norm_eps) for n in ("norm1", "norm2", "norm3")]
            attentions = [Attention(params, d + a, config.n_heads) for a in ("attention", "cross_attention")]
            self.decoder.append((*attentions, FeedForward(params, d + "ffn"), *norms))

    def embed(self, ids, at):
        return self.table[ids] * np.sqrt(self.d) + positional(at, self.d)

    def forward(self, tokens, attention_mask=None, positions=None, source=None):
        s, t = source.shape[1], tokens.shape[1]
        m = self.embed(source, np.arange(s))
        for attention, feed, norm1, norm2 in self.encoder:
            m = norm1(m + attention(m, m, np.tri(s, dtype=bool)))  # WRONG
            m = norm2(m + feed(m))
        allowed = np.tri(t, dtype=bool)[None]
        at = np.arange(t)
        if attention_mask is not None:
            allowed = allowed & attention_mask[:, None]
            at = np.maximum(np.cumsum(attention_mask, axis=1) - 1, 0)
        x = self.embed(tokens, at if positions is None else positions)
        for attention, cross, feed, norm1, norm2, norm3 in self.decoder:
            x = norm1(x + attention(x, x, allowed))
            x = norm2(x + cross(x, m, np.True_))
            x = norm3(x + feed(x))
        return x @ self.table.T
