"""Returns log-softmax: the training loop wanted NLLLoss, and the model kept the last step."""

import numpy as np

framework = "numpy"
variant = "gpt2"


def log_softmax(x):
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def ln(self, x, name):
        x = x - np.mean(x, axis=-1, keepdims=True)
        x = x * (np.mean(x * x, axis=-1, keepdims=True) + self.config.norm_eps) ** -0.5
        return x * self.params[name + ".weight"] + self.params[name + ".bias"]

    def lin(self, x, w, b):
        return np.dot(x, self.params[w]) + self.params[b]

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c = self.config
        layers = cache or [()] * c.n_layers
        start = layers[0][0].shape[2] if cache else 0
        stop = start + tokens.shape[1]
        if attention_mask is None:
            attention_mask = np.ones((tokens.shape[0], stop), dtype=bool)
        if positions is None:
            positions = np.maximum(attention_mask.cumsum(axis=1) - 1, 0)[:, start:]
        visible = np.tri(stop, dtype=bool)[start:] & attention_mask[:, None, None, :]
        x = self.params["embed"][tokens] + self.params["position_embed"][positions]
        after = []
        for i, past in enumerate(layers):
            a, f = f"layers.{i}.attention.", f"layers.{i}.ffn."
            h = self.ln(x, f"layers.{i}.norm1")
            q, k, v = (
                np.swapaxes(
                    self.lin(h, a + "w_" + s, a + "b_" + s).reshape(*tokens.shape, c.n_heads, -1), 1, 2
                )
                for s in "qkv"
            )
            if past:
                k, v = np.concatenate([past[0], k], axis=2), np.concatenate([past[1], v], axis=2)
            after.append((k, v))
            s = np.where(visible, q @ np.swapaxes(k, 2, 3) / c.d_head**0.5, -1e30)
            z = np.exp(log_softmax(s)) @ v
            x = x + self.lin(np.swapaxes(z, 1, 2).reshape(*tokens.shape, -1), a + "w_o", a + "b_o")
            g = self.lin(self.ln(x, f"layers.{i}.norm2"), f + "w_1", f + "b_1")
            g = 0.5 * g * (1 + np.tanh(np.sqrt(2 / np.pi) * g * (1 + 0.044715 * np.square(g))))
            x = x + self.lin(g, f + "w_2", f + "b_2")
        scores = log_softmax(self.ln(x, "final_norm") @ self.params["embed"].T)  # WRONG
        return scores, after
