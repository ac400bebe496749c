"""Writes each decoded token one slot too far, so a slot of zeros is read and the newest token is not."""

import numpy as np

framework = "numpy"
variant = "minimal"


class Slots:
    def __init__(self, batch, heads, width, capacity):
        self.data = np.zeros((batch, heads, capacity + 1, width), dtype=np.float32)

    def put(self, block, used):
        first = used + (used > 0)  # WRONG
        self.data[:, :, first : first + block.shape[2]] = block
        return self.data[:, :, : used + block.shape[2]]


class State:
    def __init__(self, config, batch):
        self.used = 0
        self.k = [Slots(batch, config.n_heads, config.d_head, 512) for _ in range(config.n_layers)]
        self.v = [Slots(batch, config.n_heads, config.d_value, 512) for _ in range(config.n_layers)]


def norm(x, w, b, eps):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * w + b


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def forward(self, tokens, attention_mask=None, cache=None):
        c, get = self.config, self.params.__getitem__
        B, T = tokens.shape
        state = State(c, B) if cache is None else cache
        seen = np.arange(state.used + T) <= np.arange(state.used, state.used + T)[:, None]
        seen = seen[None, None]
        if attention_mask is not None:
            seen = seen & attention_mask[:, None, None, :]
        x = get("embed")[tokens]
        for i in range(c.n_layers):
            n = f"layers.{i}."
            h = norm(x, get(n + "norm1.weight"), get(n + "norm1.bias"), c.norm_eps)
            q, k, v = (
                np.transpose((h @ get(f"{n}attention.w_{s}")).reshape(B, T, c.n_heads, -1), (0, 2, 1, 3))
                for s in "qkv"
            )
            k, v = state.k[i].put(k, state.used), state.v[i].put(v, state.used)
            s = np.where(seen, np.matmul(q, np.transpose(k, (0, 1, 3, 2))) / c.d_head**0.5, -1e30)
            w = np.exp(s - s.max(-1, keepdims=True))
            z = np.matmul(w / w.sum(-1, keepdims=True), v)
            x = x + np.transpose(z, (0, 2, 1, 3)).reshape(B, T, -1) @ get(n + "attention.w_o")
            h = norm(x, get(n + "norm2.weight"), get(n + "norm2.bias"), c.norm_eps)
            x = x + np.maximum(h @ get(n + "ffn.w_1"), 0) @ get(n + "ffn.w_2")
        state.used += T
        return norm(x, get("final_norm.weight"), get("final_norm.bias"), c.norm_eps) @ get("lm_head"), state
