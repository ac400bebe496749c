"""Rotates q, k and v alike: a loop over the three projections was one name too long."""

import numpy as np

framework = "numpy"
variant = "llama"


def rotary(a, positions, theta):
    width = a.shape[-1]
    freq = 1 / theta ** (np.arange(width // 2) * 2 / width)
    phase = np.multiply.outer(positions, freq)
    phase = phase if phase.ndim == 2 else phase[:, None]
    cos = np.concatenate([np.cos(phase)] * 2, axis=-1)
    sin = np.concatenate([np.sin(phase)] * 2, axis=-1)
    return a * cos + np.roll(a, width // 2, axis=-1) * sin * np.repeat([-1, 1], width // 2)


def multi_head_attention(x, params, config, attention_mask=None, positions=None, tap=None):
    emit = tap or (lambda name, tensor: None)
    batch, length = x.shape[:2]
    at = np.arange(length) if positions is None else positions
    if positions is None and attention_mask is not None:
        at = np.maximum(np.cumsum(attention_mask, axis=1) - 1, 0)
    shape = (batch, length, -1)
    q = (x @ params["w_q"]).reshape(*shape, config.d_head).swapaxes(1, 2)
    k = (x @ params["w_k"]).reshape(*shape, config.d_head).swapaxes(1, 2)
    v = (x @ params["w_v"]).reshape(*shape, config.d_value).swapaxes(1, 2)
    emit("q", q)
    emit("k", k)
    emit("v", v)
    q, k, v = (rotary(a, at, config.rope_theta) for a in (q, k, v))  # WRONG
    emit("q_rot", q)
    emit("k_rot", k)
    emit("values", v)

    group = config.n_heads // config.n_kv_heads
    scores = np.matmul(q, np.repeat(k, group, 1).swapaxes(2, 3)) / np.sqrt(config.d_head)
    blocked = np.arange(length)[:, None] < np.arange(length)
    if attention_mask is not None:
        blocked = blocked | ~attention_mask[:, None, None]
    scores = np.where(blocked, -1e30, scores)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    weights = scores / scores.sum(-1, keepdims=True)
    emit("weights", weights)
    z = np.matmul(weights, np.repeat(v, group, 1))
    return z.swapaxes(1, 2).reshape(shape) @ params["w_o"]
