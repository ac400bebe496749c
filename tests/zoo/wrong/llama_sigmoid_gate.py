"""Gates with the sigmoid alone, a GLU of 2016: the factor x of x * sigmoid(x) is missing."""

import numpy as np

framework = "numpy"
variant = "llama"


def sigmoid(x):
    return 0.5 * (np.tanh(0.5 * x) + 1)


def rms(x, params, name, eps):
    return (
        x
        * params[name + ".weight"]
        / np.sqrt(np.einsum("...d,...d->...", x, x)[..., None] / x.shape[-1] + eps)
    )


def rotate_pairs(x, positions, theta):
    pairs = x.reshape(*x.shape[:-1], 2, -1)
    n = pairs.shape[-1]
    phase = positions[..., None, None] * np.power(theta, -np.arange(n) / n)
    cos, sin = np.cos(phase), np.sin(phase)
    a, b = pairs[..., 0, :], pairs[..., 1, :]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def forward(self, tokens, attention_mask=None, positions=None, cache=None, tap=None):
        cfg, params = self.config, self.params
        B, T = tokens.shape
        tap = tap or (lambda name, tensor: None)
        P = 0 if cache is None else cache[0].shape[2]
        positions = np.arange(P, P + T) if positions is None else positions
        keep = (np.arange(P + T) <= np.arange(P, P + T)[:, None])[None]
        if attention_mask is not None:
            keep = keep & attention_mask[:, None, :]
        x, state = params["embed"][tokens], []
        for i in range(cfg.n_layers):
            L = f"layers.{i}."
            h = rms(x, params, L + "norm1", cfg.norm_eps)
            q = rotate_pairs(
                (h @ params[L + "attention.w_q"]).reshape(B, T, -1, cfg.d_head), positions, cfg.rope_theta
            )
            k = rotate_pairs(
                (h @ params[L + "attention.w_k"]).reshape(B, T, -1, cfg.d_head), positions, cfg.rope_theta
            )
            v = (h @ params[L + "attention.w_v"]).reshape(B, T, -1, cfg.d_value)
            kv = np.concatenate([k, v], axis=-1)[None]
            kv = kv if cache is None else np.concatenate([cache[i], kv], axis=2)
            state.append(kv)
            kv = np.repeat(kv[0], cfg.n_heads // cfg.n_kv_heads, axis=2)
            k, v = kv[..., : cfg.d_head], kv[..., cfg.d_head :]
            s = np.where(keep[:, None], np.einsum("bqhd,bkhd->bhqk", q, k) / cfg.d_head**0.5, -1e30)
            p = np.exp(s - s.max(-1, keepdims=True))
            z = np.einsum("bhqk,bkhd->bqhd", p / p.sum(-1, keepdims=True), v).reshape(B, T, -1)
            x = x + z @ params[L + "attention.w_o"]
            h = rms(x, params, L + "norm2", cfg.norm_eps)
            gate, up = h @ params[L + "ffn.w_gate"], h @ params[L + "ffn.w_up"]
            hidden = sigmoid(gate) * up  # WRONG
            tap(L + "u", x)
            tap(L + "norm2", h)
            tap(L + "ffn_gate", gate)
            tap(L + "ffn_up", up)
            tap(L + "ffn_hidden", hidden)
            x = x + hidden @ params[L + "ffn.w_down"]
            tap(L + "y", x)
        return rms(x, params, "final_norm", cfg.norm_eps) @ params["lm_head"], state
