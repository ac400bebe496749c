"""One norm serves both sub-layers: self.norm was made once and used twice."""

import numpy as np

framework = "numpy"
variant = "gpt2"


def normalise(x, gain, shift, eps):
    x = x - x.mean(axis=-1, keepdims=True)
    return gain * x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) + shift


def distribution(x):
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


class Model:
    def __init__(self, config, params):
        self.config = config
        self.params = params

    def forward(self, tokens, attention_mask=None, positions=None, tap=None):
        c, p = self.config, self.params
        tap = tap or (lambda name, tensor: None)
        b, t = tokens.shape
        mask = np.tri(t, dtype=bool)
        real = np.ones((b, t), dtype=bool) if attention_mask is None else attention_mask
        mask = mask & real[:, None, None, :]
        if positions is None:
            positions = np.maximum(real.cumsum(1) - 1, 0)
        x = p["embed"][tokens] + p["position_embed"][positions]
        for i in range(c.n_layers):
            w = {k[len(f"layers.{i}.") :]: v for k, v in p.items() if k.startswith(f"layers.{i}.")}

            def send(name, tensor, i=i):
                tap(f"layers.{i}.{name}", tensor)

            norm1 = normalise(x, w["norm1.weight"], w["norm1.bias"], c.norm_eps)
            send("norm1", norm1)
            q, k, v = (
                (norm1 @ w["attention.w_" + a] + w["attention.b_" + a])
                .reshape(b, t, c.n_heads, -1)
                .swapaxes(1, 2)
                for a in "qkv"
            )
            weights = distribution(np.where(mask, q @ k.swapaxes(2, 3) / c.d_head**0.5, -1e30))
            send("weights", weights)
            concat = (weights @ v).swapaxes(1, 2).reshape(b, t, -1)
            u = x + concat @ w["attention.w_o"] + w["attention.b_o"]
            send("u", u)
            norm2 = normalise(u, w["norm1.weight"], w["norm1.bias"], c.norm_eps)  # WRONG
            send("norm2", norm2)
            pre = norm2 @ w["ffn.w_1"] + w["ffn.b_1"]
            hidden = 0.5 * pre * (1 + np.tanh(np.sqrt(2 / np.pi) * (pre + 0.044715 * pre**3)))
            send("ffn_hidden", hidden)
            x = u + hidden @ w["ffn.w_2"] + w["ffn.b_2"]
            send("y", x)
        return normalise(x, p["final_norm.weight"], p["final_norm.bias"], c.norm_eps) @ p["embed"].T
