"""A second letter for the batch in the einsum: the keys of all sequences are summed into each score."""

import numpy as np

framework = "numpy"
variant = "gpt2"


def multi_head_attention(x, params, config, attention_mask=None, tap=None):
    H = config.n_heads
    w = {c: params["w_" + c].reshape(x.shape[-1], H, -1) for c in "qkv"}
    q, k, v = (np.einsum("bti,iho->btho", x, w[c]) + params["b_" + c].reshape(H, -1) for c in "qkv")
    s = np.einsum("bqhd,ckhd->bhqk", q, k) / np.sqrt(q.shape[-1])  # WRONG
    if tap is not None:
        tap("scores", s)
    T = x.shape[1]
    bias = np.where(np.tri(T, dtype=bool), 0.0, -np.inf)[None, None]
    if attention_mask is not None:
        bias = bias + np.where(attention_mask, 0.0, -np.inf)[:, None, None]
    s = s + bias
    m = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isinf(m), 0, m))
    p = p / np.maximum(p.sum(-1, keepdims=True), 1e-35)
    z = np.einsum("bhqk,bkhd->bqhd", p, v)
    if tap is not None:
        tap("weights", p)
        tap("concat", z.reshape(*x.shape[:2], -1))
    w_o = params["w_o"].reshape(H, -1, x.shape[-1])
    return np.einsum("bthd,hdm->btm", z, w_o) + params["b_o"]
