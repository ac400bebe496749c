"""The feed-forward network is counted as one matrix of d × d_ff; the way back is forgotten."""

import numpy as np

framework = "numpy"
variant = "minimal"


def parameter_shapes(config):
    d, shapes = config.d_model, {}
    shapes["embed"], shapes["lm_head"] = (config.vocab_size, d), (d, config.vocab_size)
    for place in ["final_norm"] + [f"layers.{i}.norm{j}" for i in range(config.n_layers) for j in (1, 2)]:
        shapes[place + ".weight"] = shapes[place + ".bias"] = (d,)
    for i in range(config.n_layers):
        for w in "qkvo":
            shapes[f"layers.{i}.attention.w_{w}"] = (d, d)
        shapes[f"layers.{i}.ffn.w_1"] = (d, config.d_ff)  # WRONG
    return shapes


def layer_norm(x, weight, bias, eps):
    mu = np.mean(x, axis=-1)[..., None]
    var = np.mean(np.square(x - mu), axis=-1)[..., None]
    return (x - mu) / np.sqrt(var + eps) * weight + bias


class Model:
    def __init__(self, config, params):
        self.config, self.w = config, params

    def norm(self, x, name):
        return layer_norm(x, self.w[f"{name}.weight"], self.w[f"{name}.bias"], self.config.norm_eps)

    def attend(self, h, name, blocked):
        out = 0
        for n in range(self.config.n_heads):
            lo, hi = n * self.config.d_head, (n + 1) * self.config.d_head
            q, k, v = (h @ self.w[f"{name}.w_{c}"][:, lo:hi] for c in "qkv")
            s = np.einsum("btd,bsd->bts", q, k) / self.config.d_head**0.5
            s = np.where(blocked, -1e30, s)
            e = np.exp(s - s.max(2, keepdims=True))
            out = out + e / e.sum(2, keepdims=True) @ v @ self.w[f"{name}.w_o"][lo:hi]
        return out

    def forward(self, tokens, attention_mask=None):
        x = self.w["embed"][tokens]
        blocked = ~np.tri(tokens.shape[1], dtype=bool)[None]
        if attention_mask is not None:
            blocked = blocked | ~attention_mask[:, None, :]
        for i in range(self.config.n_layers):
            x = x + self.attend(self.norm(x, f"layers.{i}.norm1"), f"layers.{i}.attention", blocked)
            h = self.norm(x, f"layers.{i}.norm2") @ self.w[f"layers.{i}.ffn.w_1"]
            x = x + np.where(h > 0, h, 0) @ self.w[f"layers.{i}.ffn.w_2"]
        return self.norm(x, "final_norm") @ self.w["lm_head"]
