"""The padding mask is laid on the queries: padded rows go blind and everyone still reads the padding."""

import numpy as np

framework = "numpy"
variant = "minimal"


def softmax(x, axis):
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return np.exp(shifted) / np.exp(shifted).sum(axis=axis, keepdims=True)


def heads_of(x, w, n):
    return np.einsum("btd,dhe->bhte", x, w.reshape(w.shape[0], n, -1))


def multi_head_attention(x, params, config, attention_mask=None, tap=None):
    q = heads_of(x, params["w_q"], config.n_heads)
    k = heads_of(x, params["w_k"], config.n_kv_heads)
    v = heads_of(x, params["w_v"], config.n_kv_heads)
    k = k.repeat(config.n_heads // config.n_kv_heads, axis=1)
    v = v.repeat(config.n_heads // config.n_kv_heads, axis=1)

    T = x.shape[1]
    may_read = (
        np.tril(np.ones((1, 1, T, T), dtype=bool)) if config.causal else np.ones((1, 1, T, T), dtype=bool)
    )
    if attention_mask is not None:
        may_read = may_read & attention_mask[:, None, :, None]  # WRONG
    scores = np.einsum("bhid,bhjd->bhij", q, k) / config.d_head**0.5
    masked = np.where(may_read, scores, np.finfo(scores.dtype).min)
    weights = softmax(masked, -1)
    z = np.einsum("bhij,bhjd->bihd", weights, v)
    concat = z.reshape(*z.shape[:2], -1)
    out = concat @ params["w_o"]
    if tap is not None:
        tap("scores", scores)
        tap("masked_scores", masked)
        tap("weights", weights)
        tap("concat", concat)
        tap("attn_out", out)
    return out
