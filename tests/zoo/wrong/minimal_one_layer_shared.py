"""All layers run with the first one's weights: `[Block()] * n_layers` makes one block, listed n times."""

import numpy as np

framework = "numpy"
variant = "minimal"


class Block:
    def __init__(self, config, weights):
        self.config, self.weights = config, weights

    def __call__(self, x, mask, tap):
        cfg, w = self.config, self.weights
        B, T, _ = x.shape
        tap("x", x)
        n = self.norm(x, "norm1")
        tap("norm1", n)
        q = (n @ w["attention.w_q"]).reshape(B, T, -1, cfg.d_head).swapaxes(1, 2)
        k = (n @ w["attention.w_k"]).reshape(B, T, -1, cfg.d_head).swapaxes(1, 2)
        v = (n @ w["attention.w_v"]).reshape(B, T, -1, cfg.d_value).swapaxes(1, 2)
        tap("q", q)
        s = q @ k.swapaxes(2, 3) / cfg.d_head**0.5
        s = np.where(mask, s, -3e38)
        p = np.exp(s - s.max(3, keepdims=True))
        p = p / p.sum(3, keepdims=True)
        tap("weights", p)
        u = x + (p @ v).swapaxes(1, 2).reshape(B, T, -1) @ w["attention.w_o"]
        tap("u", u)
        y = u + np.maximum(self.norm(u, "norm2") @ w["ffn.w_1"], 0) @ w["ffn.w_2"]
        tap("y", y)
        return y

    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        return (
            x
            / np.sqrt((x**2).mean(-1, keepdims=True) + self.config.norm_eps)
            * self.weights[name + ".weight"]
            + self.weights[name + ".bias"]
        )


class Model:
    def __init__(self, config, params):
        self.params = params
        self.eps = config.norm_eps
        self.blocks = []
        for _i in range(config.n_layers):
            prefix = "layers.0."  # WRONG
            own = {k[len(prefix) :]: v for k, v in params.items() if k.startswith(prefix)}
            self.blocks.append(Block(config, own))

    def forward(self, tokens, attention_mask=None, tap=None):
        size = tokens.shape[1]
        mask = np.tri(size, dtype=bool)[None, None]
        if attention_mask is not None:
            mask = mask & attention_mask[:, None, None, :]
        x = self.params["embed"][tokens]
        for i, block in enumerate(self.blocks):
            x = block(x, mask, lambda name, a, i=i: tap(f"layers.{i}.{name}", a) if tap else None)
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + self.eps)
        x = x * self.params["final_norm.weight"] + self.params["final_norm.bias"]
        return x @ self.params["lm_head"]
