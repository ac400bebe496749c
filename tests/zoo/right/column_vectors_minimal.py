"""The minimal structure in column vectors: features first, y = W.T @ x.

A batch is [D, B*T], scores are [keys, queries], and softmax runs down the columns.
Logits and taps are turned into rows of the contract at the very end.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = "minimal"


def normalise(x, weight, bias, eps):
    """x [D, N]: one token a column."""
    x = x - x.mean(axis=0)
    x = x / np.sqrt((x * x).mean(axis=0) + eps)
    return weight[:, None] * x + bias[:, None]


class Model:
    def __init__(self, config, params):
        self.config = config
        self.p = {name: np.transpose(value) for name, value in params.items()}

    def attention(self, x, name, lengths):
        """x [D, N] of several sequences; ``lengths`` gives (start, stop) of each."""
        c, p = self.config, self.p
        q = (p[name + "w_q"] @ x).reshape(c.n_heads, c.d_head, -1)
        k = (p[name + "w_k"] @ x).reshape(c.n_heads, c.d_head, -1)
        v = (p[name + "w_v"] @ x).reshape(c.n_heads, c.d_value, -1)
        z = np.empty((c.n_heads, c.d_value, x.shape[1]), x.dtype)
        for start, stop in lengths:
            here = slice(start, stop)
            scores = k[:, :, here].swapaxes(1, 2) @ q[:, :, here] / c.d_head**0.5
            # Row j is a key, column i a query: what lies below the diagonal is future.
            future = np.tri(stop - start, k=-1, dtype=bool)
            scores = np.where(future, -np.inf, scores)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights = weights / weights.sum(axis=1, keepdims=True)
            z[:, :, here] = v[:, :, here] @ weights
        return p[name + "w_o"] @ z.reshape(c.n_heads * c.d_value, -1)

    def forward(self, tokens, attention_mask=None, tap=None):
        c, p = self.config, self.p
        batch, time = tokens.shape
        real = np.ones((batch, time), bool) if attention_mask is None else attention_mask
        # Only real tokens are computed: all sequences packed into one row of columns.
        ends = np.cumsum(real.sum(axis=1))
        lengths = list(zip([0, *ends[:-1]], ends))

        def tap_rows(name, columns):
            if tap is not None:
                rows = np.zeros((batch, time, len(columns)), columns.dtype)
                rows[real] = columns.T
                tap(name, rows)

        x = p["embed"][:, tokens[real]]
        for n in range(c.n_layers):
            name = f"layers.{n}."
            tap_rows(name + "x", x)
            norm1 = normalise(x, p[name + "norm1.weight"], p[name + "norm1.bias"], c.norm_eps)
            tap_rows(name + "norm1", norm1)
            x = x + self.attention(norm1, name + "attention.", lengths)
            tap_rows(name + "u", x)
            norm2 = normalise(x, p[name + "norm2.weight"], p[name + "norm2.bias"], c.norm_eps)
            hidden = np.maximum(p[name + "ffn.w_1"] @ norm2, 0)
            x = x + p[name + "ffn.w_2"] @ hidden
            tap_rows(name + "y", x)
        final = normalise(x, p["final_norm.weight"], p["final_norm.bias"], c.norm_eps)
        logits = np.zeros((batch, time, c.vocab_size), x.dtype)
        logits[real] = (p["lm_head"] @ final).T
        return logits
