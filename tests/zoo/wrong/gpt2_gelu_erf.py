"""The exact gelu where GPT-2 means the tanh form: `nn.GELU()` without approximate="tanh"."""

import math

import numpy as np

framework = "numpy"
variant = "gpt2"

erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu(x):
    return (0.5 * x * (1 + erf(x / math.sqrt(2)))).astype(x.dtype)  # WRONG


def layer_norm(x, weight, bias, eps):
    mean = np.mean(x, axis=-1, keepdims=True)
    variance = np.var(x, axis=-1, keepdims=True)
    return weight * (x - mean) / np.sqrt(variance + eps) + bias


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        wte, wpe = self.params["embed"], self.params["position_embed"]
        past = 0 if cache is None else cache[0][0].shape[2]
        if positions is None and attention_mask is not None:
            positions = np.maximum(np.cumsum(attention_mask, axis=1) - 1, 0)[:, past:]
        elif positions is None:
            positions = np.arange(past, past + tokens.shape[1])
        x = wte[tokens] + wpe[positions]
        allowed = np.tri(tokens.shape[1], past + tokens.shape[1], past, dtype=bool)[None, None]
        if attention_mask is not None:
            allowed = allowed & attention_mask[:, None, None, :]
        present = []
        for i in range(self.config.n_layers):
            w = {k[len(f"layers.{i}.") :]: v for k, v in self.params.items() if k.startswith(f"layers.{i}.")}
            x, kv = self.block(x, w, None if cache is None else cache[i], allowed)
            present.append(kv)
        x = layer_norm(
            x, self.params["final_norm.weight"], self.params["final_norm.bias"], self.config.norm_eps
        )
        return x @ wte.T, present

    def block(self, x, w, past, allowed):
        cfg = self.config
        h = layer_norm(x, w["norm1.weight"], w["norm1.bias"], cfg.norm_eps)
        q, k, v = (h @ w["attention.w_" + c] + w["attention.b_" + c] for c in "qkv")
        q, k, v = (a.reshape(*a.shape[:2], cfg.n_heads, -1).transpose(0, 2, 1, 3) for a in (q, k, v))
        if past is not None:
            k, v = np.concatenate([past[0], k], axis=2), np.concatenate([past[1], v], axis=2)
        att = q @ k.swapaxes(2, 3) / math.sqrt(cfg.d_head)
        att = np.where(allowed, att, np.finfo(att.dtype).min)
        att = np.exp(att - att.max(-1, keepdims=True))
        y = (att / att.sum(-1, keepdims=True)) @ v
        y = y.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1)
        x = x + y @ w["attention.w_o"] + w["attention.b_o"]
        h = layer_norm(x, w["norm2.weight"], w["norm2.bias"], cfg.norm_eps)
        return x + gelu(h @ w["ffn.w_1"] + w["ffn.b_1"]) @ w["ffn.w_2"] + w["ffn.b_2"], (k, v)
