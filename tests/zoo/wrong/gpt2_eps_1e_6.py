"""Hard-codes 1e-6, Flax's default, where the configuration says norm_eps."""

import numpy as np

framework = "numpy"
variant = "gpt2"


def scaled_norm(x, scale, offset):
    mean = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return scale * (x - mean) / np.sqrt(var + 1e-6) + offset  # WRONG


def dense(x, kernel, bias):
    return np.einsum("...i,ij->...j", x, kernel) + bias


def attend(q, k, v, keep):
    logits = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(np.float32(q.shape[-1]))
    logits = np.where(keep, logits, np.float32(-3e38))
    w = np.exp(logits - logits.max(-1, keepdims=True))
    return np.einsum("bhqk,bkhd->bqhd", w / w.sum(-1, keepdims=True), v)


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        cfg, at = self.config, self.params.__getitem__
        old = cache[0][0].shape[1] if cache else 0
        span = tokens.shape[1]
        keep = np.tri(span, old + span, old, dtype=bool)[None, None]
        if attention_mask is not None:
            keep = keep & attention_mask[:, None, None, :]
        if positions is None and attention_mask is None:
            positions = old + np.arange(span)
        elif positions is None:
            positions = np.maximum(attention_mask.cumsum(-1) - 1, 0)[:, -span:]
        x = at("embed")[tokens] + at("position_embed")[positions]
        kept = []
        for i in range(cfg.n_layers):
            n = f"layers.{i}."
            h = scaled_norm(x, at(n + "norm1.weight"), at(n + "norm1.bias"))
            q, k, v = (
                dense(h, at(f"{n}attention.w_{c}"), at(f"{n}attention.b_{c}")).reshape(
                    *h.shape[:2], cfg.n_heads, -1
                )
                for c in "qkv"
            )
            if cache:
                k = np.concatenate([cache[i][0], k], axis=1)
                v = np.concatenate([cache[i][1], v], axis=1)
            kept.append((k, v))
            z = attend(q, k, v, keep).reshape(*h.shape[:2], -1)
            x = x + dense(z, at(n + "attention.w_o"), at(n + "attention.b_o"))
            h = scaled_norm(x, at(n + "norm2.weight"), at(n + "norm2.bias"))
            h = dense(h, at(n + "ffn.w_1"), at(n + "ffn.b_1"))
            h = h * 0.5 * (1 + np.tanh(0.79788456 * h + 0.79788456 * 0.044715 * h * h * h))
            x = x + dense(h, at(n + "ffn.w_2"), at(n + "ffn.b_2"))
        return scaled_norm(x, at("final_norm.weight"), at("final_norm.bias")) @ at("embed").T, kept
