"""Parameters are counted by the rule of thumb 4·d², though there are fewer key and value heads than query heads."""

import numpy as np

framework = "numpy"
variant = "llama"


def parameter_shapes(config):
    D, F = config.d_model, config.d_ff
    shapes = {"embed": (config.vocab_size, D), "lm_head": (D, config.vocab_size), "final_norm.weight": (D,)}
    for n in range(config.n_layers):
        shapes.update({f"layers.{n}.attention.{w}": (D, D) for w in ("w_q", "w_k", "w_v", "w_o")})  # WRONG
        shapes.update({f"layers.{n}.ffn.{w}": (D, F) for w in ("w_gate", "w_up")})
        shapes.update({f"layers.{n}.ffn.w_down": (F, D), f"layers.{n}.norm1.weight": (D,)})
        shapes[f"layers.{n}.norm2.weight"] = (D,)
    return shapes


class Model:
    def __init__(self, config, params):
        self.c, self.p = config, params

    def scaled(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.c.norm_eps) * self.p[name + ".weight"]

    def turned(self, x, at):
        half = self.c.d_head // 2
        angle = at[..., None] * self.c.rope_theta ** (-np.arange(half) / half)
        angle = angle if angle.ndim == 2 else angle[:, None]
        cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, tokens, attention_mask=None, positions=None):
        c, p, T = self.c, self.p, tokens.shape[1]
        allowed = np.tri(T, dtype=bool)[None]
        if attention_mask is not None:
            allowed = allowed & attention_mask[:, None]
        if positions is None:
            positions = np.arange(T) if attention_mask is None else (attention_mask.cumsum(-1) - 1).clip(0)
        x = p["embed"][tokens]
        for n in range(c.n_layers):
            at = f"layers.{n}."
            h = self.scaled(x, at + "norm1")

            def split(name, heads, h=h, at=at):
                return (h @ p[f"{at}attention.{name}"]).reshape(*h.shape[:2], heads, -1).swapaxes(1, 2)

            q, k = (self.turned(split(w, m), positions) for w, m in (("w_q", c.n_heads), ("w_k", c.n_kv_heads)))
            k, v = (np.repeat(t, c.n_heads // c.n_kv_heads, 1) for t in (k, split("w_v", c.n_kv_heads)))
            s = np.where(allowed[:, None], q @ k.swapaxes(2, 3) * c.d_head**-0.5, -1e30)
            s = np.exp(s - s.max(-1, keepdims=True))
            z = (s / s.sum(-1, keepdims=True)) @ v
            x = x + z.swapaxes(1, 2).reshape(*h.shape[:2], -1) @ p[f"{at}attention.w_o"]
            h = self.scaled(x, at + "norm2")
            gate = h @ p[f"{at}ffn.w_gate"]
            x = x + (gate / (1 + np.exp(-gate)) * (h @ p[f"{at}ffn.w_up"])) @ p[f"{at}ffn.w_down"]
        return self.scaled(x, "final_norm") @ p["lm_head"]
