"""Llama with an opaque cache object that is mutated in place and returned.

The object holds everything a later call needs: keys and values, the padding of the
past, and how many real tokens each sequence has seen, so positions go on from there.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = "llama"


class KeyValueCache:
    """Nobody outside this file can look inside."""

    __slots__ = ("_keys", "_length", "_values")

    def __init__(self, n_layers):
        self._keys = [None] * n_layers
        self._values = [None] * n_layers
        self._length = 0

    def __len__(self):
        return self._length

    def advance(self, n_tokens):
        """Count the new tokens, once for all layers."""
        self._length += n_tokens

    def extend(self, layer, k, v):
        """Append to a layer, and return all its keys and values."""
        if self._keys[layer] is None:
            self._keys[layer], self._values[layer] = k, v
        else:
            self._keys[layer] = np.append(self._keys[layer], k, axis=2)
            self._values[layer] = np.append(self._values[layer], v, axis=2)
        return self._keys[layer], self._values[layer]


def rms_norm(x, weight, eps):
    root = np.sqrt(np.sum(x * x, axis=-1, keepdims=True) / x.shape[-1] + eps)
    return x / root * weight


def rope(x, positions, theta):
    d_head = x.shape[-1]
    i = np.arange(d_head // 2)
    angle = np.multiply.outer(positions, theta ** (-2.0 * i / d_head))
    if angle.ndim == 3:
        angle = np.expand_dims(angle, 1)
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    out = x.copy()
    a, b = x[..., i], x[..., i + d_head // 2]
    out[..., i] = a * cos - b * sin
    out[..., i + d_head // 2] = a * sin + b * cos
    return out


class Attention:
    def __init__(self, config, params, layer):
        self.config, self.layer = config, layer
        prefix = f"layers.{layer}.attention."
        self.w_q, self.w_k, self.w_v, self.w_o = (
            params[prefix + name] for name in ("w_q", "w_k", "w_v", "w_o")
        )

    def __call__(self, x, positions, mask, cache):
        c = self.config
        batch, time = x.shape[:2]
        q = (x @ self.w_q).reshape(batch, time, c.n_heads, c.d_head)
        k = (x @ self.w_k).reshape(batch, time, c.n_kv_heads, c.d_head)
        v = (x @ self.w_v).reshape(batch, time, c.n_kv_heads, c.d_value)
        q = rope(q.transpose(0, 2, 1, 3), positions, c.rope_theta)
        k = rope(k.transpose(0, 2, 1, 3), positions, c.rope_theta)
        keys, values = cache.extend(self.layer, k, v.transpose(0, 2, 1, 3))
        z = np.empty((batch, time, c.n_heads, c.d_value), dtype=x.dtype)
        for head in range(c.n_heads):
            kv_head = head // (c.n_heads // c.n_kv_heads)
            scores = q[:, head] @ keys[:, kv_head].transpose(0, 2, 1) / c.d_head**0.5
            scores = np.where(mask, scores, np.finfo(x.dtype).min)
            exponentials = np.exp(scores - scores.max(axis=2, keepdims=True)) * mask
            total = exponentials.sum(axis=2, keepdims=True)
            weights = exponentials / (total + (total == 0))
            z[:, :, head] = weights @ values[:, kv_head]
        return z.reshape(batch, time, -1) @ self.w_o


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params
        self.attentions = [Attention(config, params, n) for n in range(config.n_layers)]

    def mlp(self, x, n):
        p = self.params
        gate = x @ p[f"layers.{n}.ffn.w_gate"]
        up = x @ p[f"layers.{n}.ffn.w_up"]
        # sigmoid(x) = exp(min(x, 0)) / (1 + exp(-|x|)) overflows on neither side.
        sigmoid = np.exp(np.minimum(gate, 0)) / (1 + np.exp(-abs(gate)))
        return (up * gate * sigmoid) @ p[f"layers.{n}.ffn.w_down"]

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c, p = self.config, self.params
        if cache is None:
            cache = KeyValueCache(c.n_layers)
        past, new = len(cache), tokens.shape[1]
        cache.advance(new)
        mask = np.arange(past + new) <= np.arange(past, past + new).reshape(-1, 1)
        mask = mask[None]
        if attention_mask is not None:
            mask = mask & attention_mask[:, None, :]
        if positions is None and attention_mask is not None:
            positions = np.maximum(attention_mask.cumsum(-1) - 1, 0)[:, -new:]
        elif positions is None:
            positions = past + np.arange(new)

        x = p["embed"][tokens]
        for n, attention in enumerate(self.attentions):
            normed = rms_norm(x, p[f"layers.{n}.norm1.weight"], c.norm_eps)
            x = x + attention(normed, positions, mask, cache)
            x = x + self.mlp(rms_norm(x, p[f"layers.{n}.norm2.weight"], c.norm_eps), n)
        return rms_norm(x, p["final_norm.weight"], c.norm_eps) @ p["lm_head"], cache
