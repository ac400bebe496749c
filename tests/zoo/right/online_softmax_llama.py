"""Llama with an online softmax over blocks of keys, as FlashAttention has it.

A running maximum, a running sum and an unnormalised output are rescaled as each block
arrives (Milakov and Gimelshein 2018, arXiv 1805.02867), so no row of weights ever
exists. Keys are cached as a list of the chunks that came in, never joined.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = "llama"
fully_masked = "zero"

BLOCK = 5  # keys at a time; small, so that short sequences have several blocks


def stream(q, chunks, visible):
    """q [B, Hkv, G, Tq, Dh]; chunks yields (k, v); visible [B or 1, H or 1, Tq, Tk]."""
    shape = q.shape[:-1] + (1,)
    top = np.full(shape, -np.inf, q.dtype)
    total = np.zeros(shape, q.dtype)
    out = None
    start = 0
    for k, v in chunks:
        for at in range(0, k.shape[2], BLOCK):
            keys, values = k[:, :, None, at : at + BLOCK], v[:, :, None, at : at + BLOCK]
            scores = q @ keys.swapaxes(-1, -2) / q.shape[-1] ** 0.5
            stop = start + keys.shape[-2]
            seen = visible[..., start:stop]
            if seen.shape[1] > 1:  # a mask for each head: [B, H, ..] -> [B, Hkv, G, ..]
                seen = seen.reshape(seen.shape[0], *q.shape[1:3], *seen.shape[2:])
            else:
                seen = seen[:, :, None]
            scores = np.where(seen, scores, -np.inf)
            new_top = np.maximum(top, scores.max(-1, keepdims=True))
            # Until a visible key has come, the maximum is -inf: subtract 0 instead.
            base = np.where(new_top == -np.inf, 0, new_top)
            exponentials, shrink = np.exp(scores - base), np.exp(top - base)
            total = total * shrink + exponentials.sum(-1, keepdims=True)
            block_out = exponentials @ values
            out = block_out if out is None else out * shrink + block_out
            top, start = new_top, stop
    return out / np.where(total > 0, total, 1)


def attention(q, k, v, mask=None, is_causal=False):
    (batch, n_heads, tq, d_head), (n_kv, tk) = q.shape, k.shape[1:3]
    visible = np.ones((1, 1, tq, tk), bool) if mask is None else mask
    if is_causal:
        visible = visible & np.tril(np.ones((tq, tk), bool), tk - tq)
    grouped = q.reshape(batch, n_kv, n_heads // n_kv, tq, d_head)
    return stream(grouped, [(k, v)], visible).reshape(batch, n_heads, tq, -1)


def rms_norm(x, weight, eps):
    squares = (x * x).sum(-1, keepdims=True)
    return x * weight / np.sqrt(squares / x.shape[-1] + eps)


def rope(x, positions, theta):
    """x [B, heads, T, Dh]."""
    pairs = x.reshape(*x.shape[:-1], 2, -1)  # feature i and i + Dh/2 are [0, i], [1, i]
    steps = -2 * np.arange(pairs.shape[-1]) / x.shape[-1]
    angle = np.array(positions, ndmin=2)[:, None, :, None] * theta**steps
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    a, b = pairs[..., 0, :], pairs[..., 1, :]
    turned = np.stack([a * cos - b * sin, a * sin + b * cos], axis=-2)
    return turned.reshape(x.shape)


def swiglu(x, w_gate, w_up, w_down):
    gate = x @ w_gate
    e = np.exp(-np.abs(gate))
    return (np.where(gate < 0, gate * e, gate) / (1 + e) * (x @ w_up)) @ w_down


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def forward(self, tokens, attention_mask=None, positions=None, cache=()):
        c, p = self.config, self.params
        cache = cache or ()  # one entry per call so far; each holds (k, v) per layer
        batch, new = tokens.shape
        past = sum(call[0][0].shape[2] for call in cache)
        if attention_mask is None:
            attention_mask = np.ones((batch, past + new), bool)
        if positions is None:
            positions = np.maximum(attention_mask.cumsum(1)[:, past:] - 1, 0)
        visible = np.tril(np.ones((new, past + new), bool), past)
        visible = visible & attention_mask[:, None, None]

        def heads(x, count):
            return x.reshape(batch, new, count, -1).transpose(0, 2, 1, 3)

        x = p["embed"][tokens]
        this_call = []
        for n in range(c.n_layers):
            name = f"layers.{n}."
            normed = rms_norm(x, p[name + "norm1.weight"], c.norm_eps)
            q = heads(normed @ p[name + "attention.w_q"], c.n_heads)
            k = heads(normed @ p[name + "attention.w_k"], c.n_kv_heads)
            v = heads(normed @ p[name + "attention.w_v"], c.n_kv_heads)
            q, k = (rope(y, positions, c.rope_theta) for y in (q, k))
            this_call.append((k, v))
            chunks = [call[n] for call in cache] + [(k, v)]
            q = q.reshape(batch, c.n_kv_heads, -1, new, c.d_head)
            z = stream(q, chunks, visible).reshape(batch, c.n_heads, new, -1)
            concat = z.transpose(0, 2, 1, 3).reshape(batch, new, -1)
            x = x + concat @ p[name + "attention.w_o"]
            normed = rms_norm(x, p[name + "norm2.weight"], c.norm_eps)
            x = x + swiglu(normed, *(p[f"{name}ffn.w_{w}"] for w in ("gate", "up", "down")))
        final = rms_norm(x, p["final_norm.weight"], c.norm_eps)
        return final @ p["lm_head"], (*cache, this_call)
