"""Rotates neighbours, Meta's own layout, under weights permuted for halves as Hugging Face stores them."""

import numpy as np

framework = "numpy"
variant = "llama"


def rope(x, positions, theta):
    d = x.shape[-1]
    freqs = theta ** (-np.arange(0, d, 2) / d)
    turn = np.exp(1j * np.multiply.outer(positions, freqs))
    if turn.ndim == 3:
        turn = turn[:, None]
    first, second = slice(0, None, 2), slice(1, None, 2)  # WRONG
    z = (x[..., first] + 1j * x[..., second]) * turn
    out = np.empty_like(x)
    out[..., first], out[..., second] = z.real, z.imag
    return out


class Norm:
    def __init__(self, weight, eps):
        self.weight, self.eps = weight, eps

    def __call__(self, x):
        return x / np.sqrt(np.mean(x * x, axis=-1)[..., None] + self.eps) * self.weight


class Layer:
    def __init__(self, p, c):
        self.p, self.c = p, c
        self.norm1, self.norm2 = Norm(p["norm1.weight"], c.norm_eps), Norm(p["norm2.weight"], c.norm_eps)

    def heads(self, x, name):
        return np.swapaxes((x @ self.p[name]).reshape(*x.shape[:2], -1, self.c.d_head), 1, 2)

    def __call__(self, x, positions, past, visible):
        p, c = self.p, self.c
        h = self.norm1(x)
        q = rope(self.heads(h, "attention.w_q"), positions, c.rope_theta)
        k = rope(self.heads(h, "attention.w_k"), positions, c.rope_theta)
        v = np.swapaxes((h @ p["attention.w_v"]).reshape(*h.shape[:2], -1, c.d_value), 1, 2)
        if past is not None:
            k, v = np.append(past[0], k, axis=2), np.append(past[1], v, axis=2)
        rep = q.shape[1] // k.shape[1]
        s = q @ np.swapaxes(k.repeat(rep, 1), 2, 3) / c.d_head**0.5
        s = np.where(visible, s, -1e30)
        e = np.exp(s - s.max(-1, keepdims=True))
        z = np.swapaxes(e / e.sum(-1, keepdims=True) @ v.repeat(rep, 1), 1, 2)
        x = x + z.reshape(*x.shape[:2], -1) @ p["attention.w_o"]
        h = self.norm2(x)
        g = h @ p["ffn.w_gate"]
        return x + (g / (1 + np.exp(-g)) * (h @ p["ffn.w_up"])) @ p["ffn.w_down"], (k, v)


class Model:
    def __init__(self, config, params):
        self.embed, self.head = params["embed"], params["lm_head"]
        self.norm = Norm(params["final_norm.weight"], config.norm_eps)
        parts = [[f"layers.{i}.", {}] for i in range(config.n_layers)]
        for prefix, own in parts:
            own.update({k[len(prefix) :]: v for k, v in params.items() if k.startswith(prefix)})
        self.layers = [Layer(own, config) for _, own in parts]

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        past = 0 if cache is None else cache[0][0].shape[2]
        t = tokens.shape[1]
        positions = np.arange(past, past + t) if positions is None else positions
        visible = np.arange(past + t) <= np.arange(past, past + t)[:, None]
        if attention_mask is not None:
            visible = visible & attention_mask[:, None, None]
        x, kept = self.embed[tokens], []
        for i, layer in enumerate(self.layers):
            x, kv = layer(x, positions, None if cache is None else cache[i], visible)
            kept.append(kv)
        return self.norm(x) @ self.head, kept
