"""Returns softmax of the logits: a Keras habit, the activation belongs to the last layer."""

import numpy as np

framework = "numpy"
variant = "minimal"


class Model:
    def __init__(self, config, params):
        self.config = config
        self.weights = params

    def forward(self, tokens, attention_mask=None, tap=None):
        record = tap if tap is not None else self.ignore
        w, cfg = self.weights, self.config
        steps = tokens.shape[1]
        causal = np.greater_equal.outer(np.arange(steps), np.arange(steps))
        mask = causal[None, None]
        if attention_mask is not None:
            mask = np.logical_and(mask, attention_mask[:, None, None, :])
        x = np.take(w["embed"], tokens, axis=0)
        for layer in range(cfg.n_layers):
            name = f"layers.{layer}."
            n1 = self.normalise(x, name + "norm1")
            q, k, v = (self.heads(n1 @ w[f"{name}attention.w_{c}"]) for c in "qkv")
            scores = np.matmul(q, np.swapaxes(k, 2, 3)) / np.sqrt(np.float32(cfg.d_head))
            probs = self.softmax(np.where(mask, scores, -1e30))
            z = np.matmul(probs, v)
            concat = np.concatenate([z[:, h] for h in range(cfg.n_heads)], axis=2)
            u = x + np.matmul(concat, w[name + "attention.w_o"])
            n2 = self.normalise(u, name + "norm2")
            y = u + np.matmul(np.maximum(np.matmul(n2, w[name + "ffn.w_1"]), 0), w[name + "ffn.w_2"])
            record(name + "x", x)
            record(name + "weights", probs)
            record(name + "u", u)
            record(name + "y", y)
            x = y
        x = self.normalise(x, "final_norm")
        record("final", x)
        logits = self.softmax(x @ w["lm_head"])  # WRONG
        record("logits", logits)
        return logits

    def heads(self, x):
        return x.reshape(*x.shape[:2], self.config.n_heads, -1).transpose(0, 2, 1, 3)

    def normalise(self, x, name):
        mean, var = x.mean(2, keepdims=True), x.var(2, keepdims=True)
        return (x - mean) / np.sqrt(var + self.config.norm_eps) * self.weights[
            name + ".weight"
        ] + self.weights[name + ".bias"]

    @staticmethod
    def softmax(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    @staticmethod
    def ignore(name, tensor):
        pass
