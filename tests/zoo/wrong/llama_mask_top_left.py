"""np.tril of the score's shape: with a cache the first new token sees key 0 only."""

import numpy as np

framework = "numpy"
variant = "llama"


def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def rotary(x, positions, theta):
    d = x.shape[-1] // 2
    freq = np.exp(np.log(theta) * -np.arange(d) / d)
    angle = np.einsum("bt,f->btf", positions, freq)[:, None]
    a, b = x[..., :d], x[..., d:]
    return np.concatenate(
        [a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], axis=-1
    )


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def attend(self, q, k, v, attention_mask):
        n_rep = self.config.n_heads // self.config.n_kv_heads
        scores = q @ k.repeat(n_rep, axis=1).swapaxes(2, 3) / self.config.d_head**0.5
        visible = np.tril(np.ones_like(scores, dtype=bool))  # WRONG
        if attention_mask is not None:
            visible = visible & attention_mask[:, None, None, :]
        scores = np.where(visible, scores, -1e30)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        z = e / e.sum(-1, keepdims=True) @ v.repeat(n_rep, axis=1)
        return z.swapaxes(1, 2).reshape(q.shape[0], q.shape[2], -1)

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c = self.config
        b, t = tokens.shape
        past = 0 if cache is None else cache[0][0].shape[2]
        if positions is None:
            positions = np.arange(past, past + t)
        positions = np.broadcast_to(positions, (b, t))
        x = self.params["embed"][tokens]
        present = []
        for i in range(c.n_layers):
            w = {k[len(f"layers.{i}.") :]: v for k, v in self.params.items() if k.startswith(f"layers.{i}.")}
            h = rms_norm(x, w["norm1.weight"], c.norm_eps)
            q = rotary(
                (h @ w["attention.w_q"]).reshape(b, t, -1, c.d_head).swapaxes(1, 2), positions, c.rope_theta
            )
            k = rotary(
                (h @ w["attention.w_k"]).reshape(b, t, -1, c.d_head).swapaxes(1, 2), positions, c.rope_theta
            )
            v = (h @ w["attention.w_v"]).reshape(b, t, -1, c.d_value).swapaxes(1, 2)
            if cache is not None:
                k, v = np.concatenate([cache[i][0], k], 2), np.concatenate([cache[i][1], v], 2)
            present.append((k, v))
            x = x + self.attend(q, k, v, attention_mask) @ w["attention.w_o"]
            h = rms_norm(x, w["norm2.weight"], c.norm_eps)
            g = h @ w["ffn.w_gate"]
            x = x + (g * (h @ w["ffn.w_up"]) / (1 + np.exp(-g))) @ w["ffn.w_down"]
        return rms_norm(x, self.params["final_norm.weight"], c.norm_eps) @ self.params["lm_head"], present
