"""np.tri with k=1: the diagonal offset is one too high, so each token reads the next one."""

import numpy as np

framework = "numpy"
variant = "minimal"


def tokens_mix(h, w, n_heads, allowed):
    b, t, _ = h.shape
    fused = h @ np.concatenate([w["attention.w_q"], w["attention.w_k"], w["attention.w_v"]], axis=1)
    width_q, width_k = w["attention.w_q"].shape[1], w["attention.w_k"].shape[1]
    q, k, v = np.split(fused, [width_q, width_q + width_k], axis=-1)
    q, k, v = (a.reshape(b, t, n_heads, -1).transpose(0, 2, 1, 3) for a in (q, k, v))
    logits = q @ k.transpose(0, 1, 3, 2) / q.shape[-1] ** 0.5
    logits = np.where(allowed, logits, np.finfo(logits.dtype).min)
    probs = np.exp(logits - logits.max(-1, keepdims=True))
    probs /= probs.sum(-1, keepdims=True)
    return (probs @ v).transpose(0, 2, 1, 3).reshape(b, t, -1) @ w["attention.w_o"]


def norm(h, w, name, eps):
    mean, var = np.mean(h, -1, keepdims=True), np.var(h, -1, keepdims=True)
    return (h - mean) * (var + eps) ** -0.5 * w[name + ".weight"] + w[name + ".bias"]


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def forward(self, tokens, attention_mask=None):
        cfg = self.config
        allowed = np.tri(tokens.shape[1], k=1, dtype=bool)  # WRONG
        if attention_mask is not None:
            allowed = allowed & attention_mask[:, None, None, :]
        h = self.params["embed"][tokens]
        for i in range(cfg.n_layers):
            w = {k.split(".", 2)[-1]: v for k, v in self.params.items() if k.startswith(f"layers.{i}.")}
            h = h + tokens_mix(norm(h, w, "norm1", cfg.norm_eps), w, cfg.n_heads, allowed)
            h = h + np.maximum(norm(h, w, "norm2", cfg.norm_eps) @ w["ffn.w_1"], 0) @ w["ffn.w_2"]
        return norm(h, self.params, "final_norm", cfg.norm_eps) @ self.params["lm_head"]
