"""The residual is taken after the norm: `x = norm(x)` and `x = x + f(x)` in two lines."""

import numpy as np

framework = "numpy"
variant = "minimal"


def block(x, params, config, attention_mask=None, tap=None):
    tap = tap or (lambda name, tensor: None)

    def norm(a, name):
        a = a - a.mean(-1, keepdims=True)
        a = a / np.sqrt((a * a).mean(-1, keepdims=True) + config.norm_eps)
        return a * params[name + ".weight"] + params[name + ".bias"]

    tap("x", x)
    normed = norm(x, "norm1")
    tap("norm1", normed)
    attn_out = attend(normed, params, config, attention_mask)
    tap("attn_out", attn_out)
    u = normed + attn_out  # WRONG
    tap("u", u)
    normed = norm(u, "norm2")
    tap("norm2", normed)
    hidden = np.maximum(normed @ params["ffn.w_1"], 0)
    tap("ffn_hidden", hidden)
    y = u + hidden @ params["ffn.w_2"]
    tap("y", y)
    return y


def attend(h, params, config, attention_mask):
    rows, cols = np.ogrid[: h.shape[1], : h.shape[1]]
    hidden = (cols > rows)[None]
    if attention_mask is not None:
        hidden = hidden | ~attention_mask[:, None]
    total = 0
    for i in range(config.n_heads):
        of_k = slice(i * config.d_head, (i + 1) * config.d_head)
        of_v = slice(i * config.d_value, (i + 1) * config.d_value)
        q, k = h @ params["attention.w_q"][:, of_k], h @ params["attention.w_k"][:, of_k]
        v = h @ params["attention.w_v"][:, of_v]
        s = np.where(hidden, -1e30, q @ k.transpose(0, 2, 1) / config.d_head**0.5)
        p = np.exp(s - s.max(-1, keepdims=True))
        total = total + p / p.sum(-1, keepdims=True) @ v @ params["attention.w_o"][of_v]
    return total
