"""Norms the sub-layer's output, x + LN(f(x)), neither pre-norm nor post-norm: from a vision paper."""

import numpy as np

framework = "numpy"
variant = "gpt2"


def block(x, params, config, attention_mask=None):
    def norm(name):
        weight, bias = params[name + ".weight"], params[name + ".bias"]
        return lambda a: layer_norm(a, weight, bias, config.norm_eps)

    def attend(a):
        return self_attention(a, params, config, attention_mask)

    def feed(a):
        inner = a @ params["ffn.w_1"] + params["ffn.b_1"]
        inner = inner / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (inner + 0.044715 * inner**3)))
        return inner @ params["ffn.w_2"] + params["ffn.b_2"]

    for f, g in ((attend, norm("norm1")), (feed, norm("norm2"))):
        x = x + g(f(x))  # WRONG
    return x


def layer_norm(x, weight, bias, eps):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * weight + bias


def self_attention(a, params, config, attention_mask):
    b, t, _ = a.shape
    h = config.n_heads
    qkv = [a @ params["attention.w_" + c] + params["attention.b_" + c] for c in "qkv"]
    q, k, v = (p.reshape(b, t, h, -1).transpose(0, 2, 1, 3) for p in qkv)
    att = q @ k.transpose(0, 1, 3, 2) / config.d_head**0.5
    mask = np.tril(np.ones((t, t), dtype=bool))
    if attention_mask is not None:
        mask = mask & attention_mask[:, None, None, :]
    att = np.where(mask, att, -1e30)
    att = np.exp(att - att.max(-1, keepdims=True))
    att /= att.sum(-1, keepdims=True)
    out = (att @ v).transpose(0, 2, 1, 3).reshape(b, t, -1)
    return out @ params["attention.w_o"] + params["attention.b_o"]
