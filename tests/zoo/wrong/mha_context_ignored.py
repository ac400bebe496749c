"""Takes a context and attends to x all the same: cross-attention made by copying self-attention."""

import numpy as np

framework = "numpy"
variant = "vaswani"


def multi_head_attention(x, params, config, context=None, attention_mask=None, tap=None):
    read_from = x  # WRONG
    q = x @ params["w_q"] + params["b_q"]
    k = read_from @ params["w_k"] + params["b_k"]
    v = read_from @ params["w_v"] + params["b_v"]
    q, k, v = (np.stack(np.array_split(a, config.n_heads, axis=2), axis=1) for a in (q, k, v))
    if tap is not None:
        tap("q", q)
        tap("k", k)
        tap("v", v)
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / config.d_head**0.5
    if context is None:
        n = x.shape[1]
        hidden = np.arange(n)[None, :] > np.arange(n)[:, None]
        if not config.causal:
            hidden = np.zeros_like(hidden)
        if attention_mask is not None:
            hidden = hidden | ~attention_mask[:, None, None, :]
        scores = np.where(hidden, -3e38, scores)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    z = np.einsum("bhqk,bhkd->hbqd", weights, v)
    return np.concatenate(list(z), axis=-1) @ params["w_o"] + params["b_o"]
