"""The FFN's norm reads the layer's input: the parallel layer of PaLM, in a model that is sequential."""

import numpy as np

framework = "numpy"
variant = "llama"


def rms_norm(x, weight, eps):
    return weight * x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)


def rope(x, positions, theta):
    d = x.shape[-1]
    inv = theta ** -(np.arange(0, d, 2) / d)
    emb = np.concatenate([inv, inv]) * positions[..., None, :, None]
    return x * np.cos(emb) + np.concatenate([-x[..., d // 2 :], x[..., : d // 2]], axis=-1) * np.sin(emb)


def grouped_attention(q, k, v, keep):
    n = q.shape[1] // k.shape[1]
    outs = []
    for g in range(k.shape[1]):
        s = q[:, g * n : (g + 1) * n] @ k[:, g, None].swapaxes(2, 3) / q.shape[-1] ** 0.5
        s = np.where(keep, s, -1e30)
        s = np.exp(s - s.max(-1, keepdims=True))
        outs.append(s / s.sum(-1, keepdims=True) @ v[:, g, None])
    z = np.concatenate(outs, axis=1)
    return z.swapaxes(1, 2).reshape(z.shape[0], z.shape[2], -1)


class Layer:
    def __init__(self, weights, config):
        self.w, self.c = weights, config

    def split(self, x, name, heads):
        return (x @ self.w["attention." + name]).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)

    def forward(self, x, positions, keep, past):
        c, w = self.c, self.w
        h = rms_norm(x, w["norm1.weight"], c.norm_eps)
        q = rope(self.split(h, "w_q", c.n_heads), positions, c.rope_theta)
        k = rope(self.split(h, "w_k", c.n_kv_heads), positions, c.rope_theta)
        v = self.split(h, "w_v", c.n_kv_heads)
        k, v = (k, v) if past is None else (np.append(past[0], k, 2), np.append(past[1], v, 2))
        u = x + grouped_attention(q, k, v, keep) @ w["attention.w_o"]
        normed = rms_norm(x, w["norm2.weight"], c.norm_eps)  # WRONG
        gate = normed @ w["ffn.w_gate"]
        ffn = (gate / (1 + np.exp(-gate)) * (normed @ w["ffn.w_up"])) @ w["ffn.w_down"]
        return u + ffn, (k, v)


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params
        self.layers = [
            Layer({k.split(".", 2)[2]: v for k, v in params.items() if k.startswith(f"layers.{i}.")}, config)
            for i in range(config.n_layers)
        ]

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        past = 0 if cache is None else cache[0][0].shape[2]
        t = tokens.shape[1]
        positions = np.arange(past, past + t) if positions is None else positions
        keep = np.tri(t, past + t, past, dtype=bool)
        if attention_mask is not None:
            keep = keep & attention_mask[:, None, None, :]
        x, new = self.params["embed"][tokens], []
        for i, layer in enumerate(self.layers):
            x, kv = layer.forward(x, positions, keep, None if cache is None else cache[i])
            new.append(kv)
        return rms_norm(x, self.params["final_norm.weight"], self.config.norm_eps) @ self.params[
            "lm_head"
        ], new
