"""Only the diagonal of Wo is used: an elementwise product where a matrix product belongs."""

import numpy as np

framework = "numpy"
variant = "minimal"


class Attention:
    def __init__(self, params, config):
        self.wq, self.wk, self.wv, self.wo = (params["w_" + c] for c in "qkvo")
        self.heads = config.n_heads
        self.scale = 1.0 / config.d_head**0.5

    def cut(self, a):
        return np.stack(np.split(a, self.heads, axis=-1), axis=1)

    def pattern(self, x, mask):
        scores = self.cut(x @ self.wq) @ self.cut(x @ self.wk).transpose(0, 1, 3, 2)
        scores = scores * self.scale
        open_ = np.tril(np.ones(scores.shape[-2:], dtype=bool))
        if mask is not None:
            open_ = open_ & mask[:, np.newaxis, np.newaxis]
        scores = np.where(open_, scores, -3e38)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def __call__(self, x, mask):
        z = self.pattern(x, mask) @ self.cut(x @ self.wv)
        side_by_side = np.concatenate([z[:, h] for h in range(self.heads)], axis=-1)
        return side_by_side * np.diagonal(self.wo)  # WRONG


def multi_head_attention(x, params, config, attention_mask=None):
    return Attention(params, config)(x, attention_mask)
