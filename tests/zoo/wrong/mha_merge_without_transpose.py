"""Heads are merged with one reshape of [B, H, T, Dh]: the inverse of the split was forgotten."""

import numpy as np

framework = "numpy"
variant = "gpt2"


def multi_head_attention(x, params, config, attention_mask=None):
    batch, length, _ = x.shape
    heads = config.n_heads

    def project(letter):
        flat = np.einsum("btd,de->bte", x, params["w_" + letter]) + params["b_" + letter]
        return flat.reshape(batch, length, heads, -1).transpose(0, 2, 1, 3)

    q, k, v = project("q"), project("k"), project("v")
    att = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(config.d_head)
    if config.causal:
        att = np.where(np.tri(length, dtype=bool), att, np.finfo(np.float32).min)
    if attention_mask is not None:
        att = np.where(attention_mask[:, None, None, :], att, np.finfo(np.float32).min)
    att = np.exp(att - att.max(axis=3, keepdims=True))
    att = att / att.sum(axis=3, keepdims=True)
    z = np.einsum("bhij,bhjd->bhid", att, v)
    joined = z.reshape(batch, length, heads * config.d_value)  # WRONG
    return np.einsum("bte,ed->btd", joined, params["w_o"]) + params["b_o"]
