"""A Llama with tied embeddings and eps 1e-6: a variant of its own, given as a dict.

Written as nested functions that close over the parameters; the cache is a closure
too: calling it with new keys and values gives all of them, and the next cache.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = {"base": "llama", "norm_eps": 1e-6, "tie_embeddings": True}


def remembering(past_k=None, past_v=None):
    def join(k, v):
        if past_k is not None:
            k, v = np.concatenate([past_k, k], -2), np.concatenate([past_v, v], -2)
        return k, v, remembering(k, v)

    join.length = 0 if past_k is None else past_k.shape[-2]
    return join


def rms_norm_with(weight):
    def rms_norm(x):
        return weight * x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + 1e-6)

    return rms_norm


def rotation(positions, theta, d_head, dtype):
    frequency = theta ** (np.arange(d_head // 2) * -2.0 / d_head)
    angle = np.atleast_2d(positions)[:, None, :, None] * frequency
    cos, sin = np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)

    def rotate(x):
        a, b = x[..., : d_head // 2], x[..., d_head // 2 :]
        return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)

    return rotate


def attention_with(w_q, w_k, w_v, w_o, config):
    def heads(x, count):
        return x.reshape(*x.shape[:-1], count, -1).swapaxes(1, 2)

    def attention(x, rotate, visible, join):
        q = rotate(heads(x @ w_q, config.n_heads))
        k, v, join = join(rotate(heads(x @ w_k, config.n_kv_heads)), heads(x @ w_v, config.n_kv_heads))
        group = config.n_heads // config.n_kv_heads
        z = []
        for head in range(config.n_heads):
            key, value = k[:, head // group], v[:, head // group]
            scores = q[:, head] @ key.swapaxes(1, 2) / config.d_head**0.5
            scores = np.where(visible, scores, -np.inf)
            top = np.fmax(scores.max(-1, keepdims=True), np.finfo(x.dtype).min)
            weights = np.exp(scores - top)
            total = weights.sum(-1, keepdims=True)
            z.append(weights @ value / np.where(total, total, 1))
        return np.concatenate(z, axis=-1) @ w_o, join

    return attention


def swiglu_with(w_gate, w_up, w_down):
    def swiglu(x):
        gate = x @ w_gate
        # silu(x) = x - x * sigmoid(-x), each sigmoid taken where it cannot overflow
        small = np.exp(-np.abs(gate))
        silu = np.where(gate > 0, gate - gate * small / (1 + small), 0)
        silu += np.where(gate > 0, 0, gate * small / (1 + small))
        return (silu * (x @ w_up)) @ w_down

    return swiglu


def layer_with(params, name, config):
    norm1 = rms_norm_with(params[name + "norm1.weight"])
    norm2 = rms_norm_with(params[name + "norm2.weight"])
    attention = attention_with(*(params[f"{name}attention.w_{letter}"] for letter in "qkvo"), config)
    swiglu = swiglu_with(*(params[f"{name}ffn.w_{w}"] for w in ("gate", "up", "down")))

    def layer(x, rotate, visible, join):
        attn_out, join = attention(norm1(x), rotate, visible, join)
        u = x + attn_out
        return u + swiglu(norm2(u)), join

    return layer


class Model:
    def __init__(self, config, params):
        layers = [layer_with(params, f"layers.{n}.", config) for n in range(config.n_layers)]
        embed = params["embed"]
        final_norm = rms_norm_with(params["final_norm.weight"])

        def forward(tokens, attention_mask=None, positions=None, cache=None):
            cache = cache or [remembering()] * config.n_layers
            past, new = cache[0].length, tokens.shape[1]
            query, key = np.ogrid[past : past + new, : past + new]
            visible = (key <= query)[None]
            if attention_mask is not None:
                visible = visible & attention_mask[:, None]
            if positions is None:
                positions = query[:, 0]
                if attention_mask is not None:
                    positions = np.cumsum(attention_mask, 1)[:, past:] - 1
                    positions = np.maximum(positions, 0)
            rotate = rotation(positions, config.rope_theta, config.d_head, embed.dtype)
            x, joins = embed[tokens], []
            for layer, join in zip(layers, cache):
                x, join = layer(x, rotate, visible, join)
                joins.append(join)
            return final_norm(x) @ embed.T, joins

        self.forward = forward
