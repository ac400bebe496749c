"""The base is fixed at 500000, Llama 3's, where the configuration says rope_theta."""

import numpy as np

framework = "numpy"
variant = "llama"


def inverse_frequencies(config):
    theta = 500000.0
    return theta ** (-np.arange(0, config.d_head, 2) / config.d_head)  # WRONG


def rms_norm(x, weight, eps):
    x = x / np.sqrt(np.power(x, 2).mean(axis=-1, keepdims=True) + eps)
    return np.multiply(weight, x)


def heads(x, weight, width):
    return np.moveaxis(np.tensordot(x, weight.reshape(x.shape[-1], -1, width), axes=1), 2, 1)


def rotate(x, angle):
    a, b = np.array_split(x, 2, axis=-1)
    return np.concatenate(
        (a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)), axis=-1
    )


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def forward(self, tokens, attention_mask=None, positions=None, tap=None):
        c, p = self.config, self.params
        report = tap or (lambda name, tensor: None)
        size = tokens.shape[1]
        where = np.arange(size) if positions is None else positions
        if positions is None and attention_mask is not None:
            where = np.clip(np.cumsum(attention_mask, axis=-1) - 1, 0, None)
        angle = where[..., None, :, None] * inverse_frequencies(c)
        readable = np.tri(size, dtype=bool)
        if attention_mask is not None:
            readable = readable & attention_mask[:, None, None, :]
        x = p["embed"][tokens]
        for i in range(c.n_layers):
            at = f"layers.{i}."
            h = rms_norm(x, p[at + "norm1.weight"], c.norm_eps)
            q = heads(h, p[at + "attention.w_q"], c.d_head)
            k = heads(h, p[at + "attention.w_k"], c.d_head)
            v = heads(h, p[at + "attention.w_v"], c.d_value)
            q_rot, k_rot = rotate(q, angle), rotate(k, angle)
            for name, tensor in {"q": q, "k": k, "v": v, "q_rot": q_rot, "k_rot": k_rot}.items():
                report(at + name, tensor)
            rep = c.n_heads // c.n_kv_heads
            scores = np.matmul(q_rot, np.swapaxes(np.repeat(k_rot, rep, 1), 2, 3)) / c.d_head**0.5
            report(at + "scores", scores)
            scores = np.where(readable, scores, -1e30)
            e = np.exp(scores - scores.max(-1, keepdims=True))
            z = np.moveaxis(e / e.sum(-1, keepdims=True) @ np.repeat(v, rep, 1), 1, 2)
            x = x + z.reshape(*tokens.shape, -1) @ p[at + "attention.w_o"]
            report(at + "u", x)
            h = rms_norm(x, p[at + "norm2.weight"], c.norm_eps)
            g = h @ p[at + "ffn.w_gate"]
            x = x + (g / (1 + np.exp(-g)) * (h @ p[at + "ffn.w_up"])) @ p[at + "ffn.w_down"]
            report(at + "y", x)
        return rms_norm(x, p["final_norm.weight"], c.norm_eps) @ p["lm_head"]
