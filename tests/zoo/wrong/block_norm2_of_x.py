"""The second norm reads the layer's input in place of u: the parallel block of GPT-J by accident."""

import numpy as np

framework = "numpy"
variant = "minimal"


class Norm:
    def __init__(self, params, name, eps):
        self.weight, self.bias, self.eps = params[name + ".weight"], params[name + ".bias"], eps

    def __call__(self, x):
        mean = x.mean(axis=-1, keepdims=True)
        return (x - mean) / np.sqrt(x.var(axis=-1, keepdims=True) + self.eps) * self.weight + self.bias


def attention(q, k, v, mask=None, is_causal=False):
    repeat = q.shape[1] // k.shape[1]
    s = q @ k.repeat(repeat, 1).swapaxes(2, 3) * q.shape[3] ** -0.5
    ok = np.tri(q.shape[2], k.shape[2], k.shape[2] - q.shape[2], dtype=bool) | (not is_causal)
    ok = ok if mask is None else ok & mask
    s = np.where(ok, s, np.finfo(s.dtype).min)
    w = np.exp(s - s.max(axis=3, keepdims=True))
    return w / w.sum(axis=3, keepdims=True) @ v.repeat(repeat, 1)


def block(x, params, config, attention_mask=None):
    first = Norm(params, "norm1", config.norm_eps)
    second = Norm(params, "norm2", config.norm_eps)
    h = first(x)
    q, k, v = (
        (h @ params["attention.w_" + c]).reshape(*x.shape[:2], n, -1).swapaxes(1, 2)
        for c, n in zip("qkv", (config.n_heads, config.n_kv_heads, config.n_kv_heads), strict=True)
    )
    mask = None if attention_mask is None else attention_mask[:, None, None, :]
    z = attention(q, k, v, mask, config.causal)
    u = x + z.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ params["attention.w_o"]
    h = second(x)  # WRONG
    return u + (h @ params["ffn.w_1"]).clip(0) @ params["ffn.w_2"]
