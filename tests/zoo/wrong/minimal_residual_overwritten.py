"""The attention's output replaces the stream: `x = attn(x)` where `x = x + attn(x)` belongs."""

import numpy as np

framework = "numpy"
variant = "minimal"


def normed(x, p, name, eps):
    c = x - x.mean(axis=-1, keepdims=True)
    s = 1.0 / np.sqrt(np.mean(c * c, axis=-1, keepdims=True) + eps)
    return c * s * p[name + ".weight"] + p[name + ".bias"]


def heads(x, w, n):
    return np.moveaxis((x @ w).reshape(x.shape[0], x.shape[1], n, -1), 2, 0)


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        cfg, p = self.config, self.params
        memory = cache if cache is not None else {}
        x = p["embed"][tokens]
        t = tokens.shape[1]
        for i in range(cfg.n_layers):
            pre = f"layers.{i}."
            h = normed(x, p, pre + "norm1", cfg.norm_eps)
            q, k, v = (heads(h, p[f"{pre}attention.w_{c}"], cfg.n_heads) for c in "qkv")
            if i in memory:
                k, v = (np.concatenate(pair, axis=2) for pair in zip(memory[i], (k, v), strict=True))
            memory[i] = k, v
            total = k.shape[2]
            see = np.arange(total) <= np.arange(total - t, total)[:, None]
            see = see[None] if attention_mask is None else see & attention_mask[:, None]
            s = q @ k.swapaxes(2, 3) / cfg.d_head**0.5
            s = np.where(see, s, -1e30)
            e = np.exp(s - s.max(-1, keepdims=True))
            z = np.moveaxis(e / e.sum(-1, keepdims=True) @ v, 0, 2).reshape(*tokens.shape, -1)
            x = z @ p[pre + "attention.w_o"]  # WRONG
            h = normed(x, p, pre + "norm2", cfg.norm_eps)
            x = x + (h @ p[pre + "ffn.w_1"]).clip(0) @ p[pre + "ffn.w_2"]
        return normed(x, p, "final_norm", cfg.norm_eps) @ p["lm_head"], memory
