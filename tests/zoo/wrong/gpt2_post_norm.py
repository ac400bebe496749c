"""Norms after the addition, GPT-1's order, under weights trained with the norm in front."""

import numpy as np

framework = "numpy"
variant = "gpt2"


def norm(x, params, name, eps):
    m = x.mean(axis=-1, keepdims=True)
    s = np.sqrt(((x - m) * (x - m)).mean(axis=-1, keepdims=True) + eps)
    return (x - m) / s * params[name + ".weight"] + params[name + ".bias"]


def multi_head(x, p, a, heads, see):
    qkv = [x @ p[f"{a}.w_{c}"] + p[f"{a}.b_{c}"] for c in "qkv"]
    q, k, v = (np.einsum("bthd->bhtd", y.reshape(*y.shape[:2], heads, -1)) for y in qkv)
    score = np.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
    score = np.where(see, score, np.finfo(score.dtype).min)
    score = np.exp(score - np.max(score, -1, keepdims=True))
    z = np.einsum("bhij,bhjd->bihd", score / np.sum(score, -1, keepdims=True), v)
    return z.reshape(*x.shape[:2], -1) @ p[a + ".w_o"] + p[a + ".b_o"]


def feed_forward(x, p, f):
    x = x @ p[f + ".w_1"] + p[f + ".b_1"]
    x = x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) * 0.5
    return x @ p[f + ".w_2"] + p[f + ".b_2"]


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def sublayer(self, x, name, f):
        return norm(x + f(x), self.params, name, self.config.norm_eps)  # WRONG

    def forward(self, tokens, attention_mask=None, positions=None):
        p, c = self.params, self.config
        t = tokens.shape[1]
        see = np.tri(t, dtype=bool)[None, None]
        if attention_mask is not None:
            see = see & attention_mask[:, None, None, :]
        if positions is None:
            positions = (
                np.arange(t) if attention_mask is None else np.maximum(attention_mask.cumsum(1), 1) - 1
            )
        x = p["embed"][tokens] + p["position_embed"][positions]
        for i in range(c.n_layers):
            at = f"layers.{i}."
            x = self.sublayer(
                x, at + "norm1", lambda h, at=at: multi_head(h, p, at + "attention", c.n_heads, see)
            )
            x = self.sublayer(x, at + "norm2", lambda h, at=at: feed_forward(h, p, at + "ffn"))
        return norm(x, p, "final_norm", c.norm_eps) @ p["embed"].T
