"""The cache holds rotated keys and the whole of it is rotated again at each step."""

import numpy as np

framework = "numpy"
variant = "llama"


def rms(x, g, eps):
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * g


def spun(x, positions, theta):
    half = x.shape[-1] // 2
    phase = positions[:, None, :, None] * theta ** (-np.arange(half) / half)
    c, s = np.cos(phase), np.sin(phase)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * c - b * s, a * s + b * c], -1).astype(x.dtype)


def normalised(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Model:
    def __init__(self, config, params):
        self.cfg, self.params = config, params

    def forward(self, tokens, attention_mask=None, positions=None, cache=None, tap=None):
        cfg, par = self.cfg, self.params
        b, t = tokens.shape
        tap = tap or (lambda name, tensor: None)
        old = cache["positions"] if cache else np.zeros((b, 0), dtype=np.int64)
        n = old.shape[1]
        if positions is None:
            positions = np.arange(n, n + t)
            if attention_mask is not None:
                positions = (attention_mask.cumsum(-1) - 1).clip(0)[:, n:]
        positions = np.concatenate([old, np.broadcast_to(positions, (b, t))], axis=1)
        new = {"positions": positions}
        see = np.tri(n + t, dtype=bool)[n:]
        see = see if attention_mask is None else see & attention_mask[:, None, None, :]
        x = par["embed"][tokens]
        for i in range(cfg.n_layers):
            at = f"layers.{i}."
            h = rms(x, par[at + "norm1.weight"], cfg.norm_eps)
            tap(at + "norm1", h)
            q, k, v = (
                (h @ par[f"{at}attention.w_{c}"]).reshape(b, t, m, -1).transpose(0, 2, 1, 3)
                for c, m in (("q", cfg.n_heads), ("k", cfg.n_kv_heads), ("v", cfg.n_kv_heads))
            )
            tap(at + "k", k)
            keys = k if n == 0 else np.concatenate([cache[at][0], k], axis=2)
            values = v if n == 0 else np.concatenate([cache[at][1], v], axis=2)
            keys = spun(keys, positions, cfg.rope_theta)  # WRONG
            q = spun(q, positions[:, n:], cfg.rope_theta)
            new[at] = keys, values
            tap(at + "q_rot", q)
            tap(at + "keys", keys)
            tap(at + "values", values)
            owner = np.repeat(np.arange(cfg.n_kv_heads), cfg.n_heads // cfg.n_kv_heads)
            s = q @ keys[:, owner].transpose(0, 1, 3, 2) / np.sqrt(cfg.d_head)
            z = normalised(np.where(see, s, -1e30)) @ values[:, owner]
            x = x + z.transpose(0, 2, 1, 3).reshape(b, t, -1) @ par[at + "attention.w_o"]
            tap(at + "u", x)
            h = rms(x, par[at + "norm2.weight"], cfg.norm_eps)
            gate = h @ par[at + "ffn.w_gate"]
            x = x + gate / (1 + np.exp(-gate)) * (h @ par[at + "ffn.w_up"]) @ par[at + "ffn.w_down"]
            tap(at + "y", x)
        return rms(x, par["final_norm.weight"], cfg.norm_eps) @ par["lm_head"], new
