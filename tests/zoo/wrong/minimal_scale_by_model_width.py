"""Scores divided by the root of d_model: `C ** -0.5` with C taken from x.shape, as in a first nanoGPT."""

import numpy as np

framework = "numpy"
variant = "minimal"


class Head:
    def __init__(self, wq, wk, wv):
        self.wq, self.wk, self.wv = wq, wk, wv

    def __call__(self, x, past, hidden):
        C = x.shape[-1]
        q, k, v = x @ self.wq, x @ self.wk, x @ self.wv
        if past is not None:
            k = np.concatenate([past[0], k], axis=1)
            v = np.concatenate([past[1], v], axis=1)
        wei = q @ k.transpose(0, 2, 1) * C**-0.5  # WRONG
        wei = np.where(hidden, np.finfo(wei.dtype).min, wei)
        wei = np.exp(wei - wei.max(-1, keepdims=True))
        wei = wei / wei.sum(-1, keepdims=True)
        return wei @ v, (k, v)


class LayerNorm:
    def __init__(self, weight, bias, eps):
        self.weight, self.bias, self.eps = weight, bias, eps

    def __call__(self, x):
        var = x.var(axis=-1, keepdims=True)
        return self.weight * (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(var + self.eps) + self.bias


class Block:
    def __init__(self, config, p, prefix):
        def cut(name, width):
            w = p[prefix + "attention." + name]
            return [w[:, i * width : (i + 1) * width] for i in range(config.n_heads)]

        columns = cut("w_q", config.d_head), cut("w_k", config.d_head), cut("w_v", config.d_value)
        self.heads = [Head(*w) for w in zip(*columns, strict=True)]
        self.proj = p[prefix + "attention.w_o"]
        self.w1, self.w2 = p[prefix + "ffn.w_1"], p[prefix + "ffn.w_2"]
        self.ln1, self.ln2 = (
            LayerNorm(p[f"{prefix}norm{n}.weight"], p[f"{prefix}norm{n}.bias"], config.norm_eps)
            for n in (1, 2)
        )

    def __call__(self, x, past, hidden):
        h = self.ln1(x)
        done = [head(h, old, hidden) for head, old in zip(self.heads, past, strict=True)]
        x = x + np.concatenate([out for out, _ in done], axis=-1) @ self.proj
        return x + np.maximum(self.ln2(x) @ self.w1, 0) @ self.w2, [kv for _, kv in done]


class Model:
    def __init__(self, config, params):
        self.embed, self.head = params["embed"], params["lm_head"]
        self.blocks = [Block(config, params, f"layers.{i}.") for i in range(config.n_layers)]
        self.ln_f = LayerNorm(params["final_norm.weight"], params["final_norm.bias"], config.norm_eps)
        self.n_heads = config.n_heads

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        x = self.embed[tokens]
        if cache is None:
            cache = [[None] * self.n_heads for _ in self.blocks]
        past = 0 if cache[0][0] is None else cache[0][0][0].shape[1]
        now = tokens.shape[1]
        hidden = (np.arange(past + now) > np.arange(past, past + now)[:, None])[None]
        if attention_mask is not None:
            hidden = hidden | ~attention_mask[:, None, :]
        new = []
        for block, old in zip(self.blocks, cache, strict=True):
            x, kv = block(x, old, hidden)
            new.append(kv)
        return self.ln_f(x) @ self.head, new
