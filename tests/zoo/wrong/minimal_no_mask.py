"""No causal mask: an encoder's attention reused, and the training loss looked wonderful."""

import numpy as np

framework = "numpy"
variant = "minimal"


class Model:
    def __init__(self, config, params):
        self.config = config
        self.params = params

    def norm(self, x, name):
        gain, shift = self.params[name + ".weight"], self.params[name + ".bias"]
        d = x - x.mean(-1, keepdims=True)
        return d * gain / np.sqrt((d * d).mean(-1, keepdims=True) + self.config.norm_eps) + shift

    def forward(self, tokens, attention_mask=None, tap=None):
        config, params = self.config, self.params
        tap = tap or (lambda name, tensor: None)
        x = params["embed"][tokens]
        batch, length = tokens.shape
        for i in range(config.n_layers):
            at = f"layers.{i}."
            tap(at + "x", x)
            h = self.norm(x, at + "norm1")
            tap(at + "norm1", h)
            q, k, v = (
                (h @ params[f"{at}attention.w_{c}"])
                .reshape(batch, length, config.n_heads, -1)
                .transpose(0, 2, 1, 3)
                for c in "qkv"
            )
            tap(at + "q", q)
            tap(at + "k", k)
            tap(at + "v", v)
            scores = np.einsum("bhqd,bhkd->bhqk", q, k) / config.d_head**0.5
            tap(at + "scores", scores)
            visible = np.ones((length, length), dtype=bool)  # WRONG
            if attention_mask is not None:
                visible = visible & attention_mask[:, None, None, :]
            scores = np.where(visible, scores, -1e30)
            tap(at + "masked_scores", scores)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            tap(at + "weights", weights)
            z = np.einsum("bhqk,bhkd->bqhd", weights, v).reshape(batch, length, -1)
            x = x + z @ params[at + "attention.w_o"]
            tap(at + "u", x)
            h = self.norm(x, at + "norm2")
            x = x + np.maximum(h @ params[at + "ffn.w_1"], 0) @ params[at + "ffn.w_2"]
            tap(at + "y", x)
        final = self.norm(x, "final_norm")
        logits = final @ params["lm_head"]
        tap("final", final)
        tap("logits", logits)
        return logits
