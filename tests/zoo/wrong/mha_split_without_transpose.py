"""Heads are split with one reshape to [B, H, T, Dh]: it runs, so the transpose seemed superfluous."""

import numpy as np

framework = "numpy"
variant = "minimal"


def split(a, heads):
    return a.reshape(a.shape[0], heads, a.shape[1], -1)  # WRONG


def merge(a):
    return a.swapaxes(1, 2).reshape(a.shape[0], a.shape[2], -1)


def multi_head_attention(x, params, config, attention_mask=None, tap=None):
    see = tap if tap is not None else lambda name, tensor: None
    q = split(x @ params["w_q"], config.n_heads)
    k = split(x @ params["w_k"], config.n_kv_heads)
    v = split(x @ params["w_v"], config.n_kv_heads)
    see("q", q)
    see("k", k)
    see("v", v)
    k, v = (np.repeat(a, config.n_heads // config.n_kv_heads, axis=1) for a in (k, v))

    length = x.shape[1]
    visible = np.tri(length, dtype=bool)[None, None]
    if not config.causal:
        visible = np.ones_like(visible)
    if attention_mask is not None:
        visible = visible & attention_mask[:, None, None, :]

    scores = q @ k.swapaxes(-2, -1) * config.d_head**-0.5
    see("scores", scores)
    scores = np.where(visible, scores, -np.inf)
    alive = np.isfinite(scores).any(-1, keepdims=True)
    exps = np.exp(scores - np.where(alive, scores.max(-1, keepdims=True), 0))
    weights = exps / np.where(alive, exps.sum(-1, keepdims=True), 1)
    see("weights", weights)
    z = weights @ v
    see("z", z)
    see("concat", merge(z))
    return merge(z) @ params["w_o"]
