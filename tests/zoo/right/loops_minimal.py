"""The minimal structure in loops: one sequence, one token, one head at a time.

Causality needs no mask: a token is computed when the tokens before it are in the
cache and those after it are not. The cache is a list for each sequence of lists for
each layer, appended to in place. A padding token is skipped and never becomes a key.
"""

import math

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = "minimal"


def layer_norm(x, weight, bias, eps):
    """One feature vector at a time, whatever stands before the last axis."""
    out = np.empty_like(x)
    for index in np.ndindex(x.shape[:-1]):
        features = x[index]
        mean = float(np.sum(features)) / len(features)
        variance = float(np.sum((features - mean) ** 2)) / len(features)
        out[index] = (features - mean) / math.sqrt(variance + eps) * weight + bias
    return out


def ffn(x, w_1, b_1, w_2, b_2):
    out = np.empty(x.shape[:-1] + (w_2.shape[1],), dtype=x.dtype)
    for index in np.ndindex(x.shape[:-1]):
        hidden = x[index] @ w_1 + b_1
        hidden[hidden < 0] = 0
        out[index] = hidden @ w_2 + b_2
    return out


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def norm(self, x, name):
        p = self.params
        return layer_norm(x, p[name + ".weight"], p[name + ".bias"], self.config.norm_eps)

    def attend(self, x, name, keys, values):
        """One token x [D]; keys and values are lists of [H, Dh] and [H, Dv]."""
        c, p = self.config, self.params
        q = (x @ p[name + "w_q"]).reshape(c.n_heads, c.d_head)
        keys.append((x @ p[name + "w_k"]).reshape(c.n_heads, c.d_head))
        values.append((x @ p[name + "w_v"]).reshape(c.n_heads, c.d_value))
        heads = []
        for h in range(c.n_heads):
            scores = [float(q[h] @ key[h]) / math.sqrt(c.d_head) for key in keys]
            top = max(scores)
            exponentials = [math.exp(score - top) for score in scores]
            total = sum(exponentials)
            z = np.zeros(c.d_value, dtype=x.dtype)
            for exponential, value in zip(exponentials, values):
                z += exponential / total * value[h]
            heads.append(z)
        return np.concatenate(heads) @ p[name + "w_o"]

    def step(self, token, layers):
        """The logits [V] after one token of one sequence."""
        p = self.params
        x = p["embed"][token]
        for n, (keys, values) in enumerate(layers):
            name = f"layers.{n}."
            x = x + self.attend(self.norm(x, name + "norm1"), name + "attention.", keys, values)
            normed = self.norm(x, name + "norm2")
            x = x + ffn(normed, p[name + "ffn.w_1"], 0, p[name + "ffn.w_2"], 0)
        return self.norm(x, "final_norm") @ p["lm_head"]

    def forward(self, tokens, attention_mask=None, cache=None):
        batch, time = tokens.shape
        if cache is None:
            cache = [[([], []) for _ in range(self.config.n_layers)] for _ in range(batch)]
        logits = np.zeros((batch, time, self.config.vocab_size), self.params["embed"].dtype)
        for b in range(batch):
            for t in range(time):
                # The mask covers the past as well; the new tokens are its last columns.
                if attention_mask is None or attention_mask[b, t - time]:
                    logits[b, t] = self.step(tokens[b, t], cache[b])
        return logits, cache
