"""The encoder-decoder of 2017 as modules whose weights are [out, in].

Each canonical matrix is transposed once, in __init__, and `Linear` computes
x @ weight.T + bias, as PyTorch does. The decoder caches its own keys and values; the
source is encoded again with every call. Taps for the decoder's streams.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = "vaswani"


class Linear:
    def __init__(self, params, name, suffix):
        self.weight = np.ascontiguousarray(params[f"{name}.w_{suffix}"].T)  # [out, in]
        self.bias = params[f"{name}.b_{suffix}"]

    def __call__(self, x):
        return np.einsum("...i,oi->...o", x, self.weight) + self.bias


class LayerNorm:
    def __init__(self, params, name, eps):
        self.weight, self.bias = params[name + ".weight"], params[name + ".bias"]
        self.eps = eps

    def __call__(self, x):
        mean = x.mean(axis=-1, keepdims=True)
        variance = x.var(axis=-1, keepdims=True)
        return (x - mean) / np.sqrt(variance + self.eps) * self.weight + self.bias


class Attention:
    def __init__(self, config, params, name):
        self.config = config
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            Linear(params, name, suffix) for suffix in "qkvo"
        )

    def __call__(self, x, memory, past=None, causal=False):
        c = self.config

        def heads(y, count):
            y = y.reshape(y.shape[0], y.shape[1], count, -1).transpose(0, 2, 1, 3)
            return y.repeat(c.n_heads // count, axis=1)

        q = heads(self.q_proj(x), c.n_heads)
        k = heads(self.k_proj(memory), c.n_kv_heads)
        v = heads(self.v_proj(memory), c.n_kv_heads)
        if past is not None:
            k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
        scores = np.einsum("bhid,bhjd->bhij", q, k) / c.d_head**0.5
        if causal:
            tq, tk = scores.shape[2:]
            scores += np.triu(np.full((tq, tk), -np.inf, x.dtype), k=tk - tq + 1)
        weights = np.exp(scores - scores.max(axis=3, keepdims=True))
        weights /= weights.sum(axis=3, keepdims=True)
        z = np.einsum("bhij,bhjd->bihd", weights, v)
        return self.out_proj(z.reshape(*z.shape[:2], -1)), (k, v)


class FeedForward:
    def __init__(self, params, name):
        self.linear_1, self.linear_2 = Linear(params, name, "1"), Linear(params, name, "2")

    def __call__(self, x):
        return self.linear_2(self.linear_1(x).clip(min=0))


class EncoderLayer:
    def __init__(self, config, params, name):
        self.attention = Attention(config, params, name + "attention")
        self.ffn = FeedForward(params, name + "ffn")
        self.norm1, self.norm2 = (
            LayerNorm(params, name + norm, config.norm_eps) for norm in ("norm1", "norm2")
        )

    def __call__(self, x):
        u = self.norm1(x + self.attention(x, x)[0])
        return self.norm2(u + self.ffn(u))


class DecoderLayer:
    def __init__(self, config, params, name):
        self.name = name
        self.attention = Attention(config, params, name + "attention")
        self.cross_attention = Attention(config, params, name + "cross_attention")
        self.ffn = FeedForward(params, name + "ffn")
        self.norm1, self.norm2, self.norm3 = (
            LayerNorm(params, f"{name}norm{i}", config.norm_eps) for i in (1, 2, 3)
        )

    def __call__(self, x, memory, past, tap):
        out, present = self.attention(x, x, past=past, causal=True)
        u = self.norm1(x + out)
        cross_out, _ = self.cross_attention(u, memory)
        c = self.norm2(u + cross_out)
        ffn_out = self.ffn(c)
        y = self.norm3(c + ffn_out)
        if tap is not None:
            tap(self.name + "x", x)
            tap(self.name + "attn_out", out)
            tap(self.name + "u", u)
            tap(self.name + "cross_attention.attn_out", cross_out)
            tap(self.name + "ffn_out", ffn_out)
            tap(self.name + "y", y)
        return y, present


class Model:
    def __init__(self, config, params):
        self.config, self.embed = config, params["embed"]
        self.encoder = [EncoderLayer(config, params, f"encoder.layers.{n}.") for n in range(config.n_layers)]
        self.decoder = [DecoderLayer(config, params, f"decoder.layers.{n}.") for n in range(config.n_layers)]

    def embedding(self, tokens, start=0):
        d_model = self.config.d_model
        pair = np.arange(d_model) // 2
        angle = np.arange(start, start + tokens.shape[1])[:, None] / np.power(10000.0, 2 * pair / d_model)
        # cos(a) = sin(a + pi/2), so the odd features are shifted sines.
        waves = np.sin(angle + np.pi / 2 * (np.arange(d_model) % 2))
        return self.embed[tokens] * d_model**0.5 + waves.astype(self.embed.dtype)

    def forward(self, tokens, source, cache=None, tap=None):
        memory = self.embedding(source)
        for layer in self.encoder:
            memory = layer(memory)
        cache = cache or [None] * len(self.decoder)
        past = 0 if cache[0] is None else cache[0][0].shape[2]
        x = self.embedding(tokens, start=past)
        new_cache = []
        for layer, layer_past in zip(self.decoder, cache):
            x, present = layer(x, memory, layer_past, tap)
            new_cache.append(present)
        return x @ self.embed.T, new_cache
