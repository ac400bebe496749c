"""Token ids stored as int8 to save memory, so 128 becomes -128 and reads from the table's end."""

import numpy as np

framework = "numpy"
variant = "gpt2"


class Embedding:
    def __init__(self, table, places):
        self.table, self.places = table, places

    def __call__(self, tokens, positions):
        ids = tokens.astype(np.int8)  # WRONG
        return self.table[ids] + self.places[positions]

    def attend(self, x):
        return x @ self.table.T


class Block:
    def __init__(self, p, c):
        self.p, self.c = p, c

    def linear(self, x, name):
        module, letter = name.rsplit(".", 1)
        return x @ self.p[f"{module}.w_{letter}"] + self.p[f"{module}.b_{letter}"]

    def norm(self, x, name):
        z = x - x.mean(axis=2, keepdims=True)
        z = z / np.sqrt(np.square(z).mean(axis=2, keepdims=True) + self.c.norm_eps)
        return z * self.p[name + ".weight"] + self.p[name + ".bias"]

    def __call__(self, x, past, hidden):
        n = self.norm(x, "norm1")
        shape = (*x.shape[:2], self.c.n_heads, -1)
        q, k, v = (self.linear(n, "attention." + c).reshape(shape) for c in "qkv")
        k = np.concatenate([past["k"], k], axis=1) if past else k
        v = np.concatenate([past["v"], v], axis=1) if past else v
        s = np.einsum("bihd,bjhd->bhij", q, k) / self.c.d_head**0.5
        s = np.where(hidden, -1e30, s)
        a = np.exp(s - s.max(axis=3, keepdims=True))
        z = np.einsum("bhij,bjhd->bihd", a / a.sum(axis=3, keepdims=True), v)
        u = x + self.linear(z.reshape(*x.shape[:2], -1), "attention.o")
        f = self.linear(self.norm(u, "norm2"), "ffn.1")
        f = 0.5 * f * (1 + np.tanh(np.sqrt(2 / np.pi) * (f + 0.044715 * f**3)))
        return u + self.linear(f, "ffn.2"), {"k": k, "v": v}


class Model:
    def __init__(self, config, params):
        self.embedding = Embedding(params["embed"], params["position_embed"])
        self.blocks, self.final = [], Block(params, config)
        for i in range(config.n_layers):
            own = {k.split(".", 2)[2]: v for k, v in params.items() if k.startswith(f"layers.{i}.")}
            self.blocks.append(Block(own, config))

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        past = cache[0]["k"].shape[1] if cache else 0
        T = tokens.shape[1]
        hidden = ~np.tri(T, past + T, past, dtype=bool)[None, None]
        if positions is None:
            positions = np.arange(past, past + T)
            if attention_mask is not None:
                positions = np.maximum(np.cumsum(attention_mask, 1)[:, past:] - 1, 0)
        if attention_mask is not None:
            hidden = hidden | ~attention_mask[:, None, None]
        x, kept = self.embedding(tokens, positions), []
        for i, block in enumerate(self.blocks):
            x, kv = block(x, cache[i] if cache else None, hidden)
            kept.append(kv)
        return self.embedding.attend(self.final.norm(x, "final_norm")), kept
