"""Scores are not divided at all: the scale was to be folded into Wq and never was."""

import numpy as np

framework = "numpy"
variant = "llama"


class RMSNorm:
    def __init__(self, weight, eps):
        self.weight, self.eps = weight, eps

    def __call__(self, x):
        return x * (1 / np.sqrt(np.square(x).mean(-1, keepdims=True) + self.eps)) * self.weight


def rotate(x, cos, sin):
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1).astype(x.dtype)


class Attention:
    def __init__(self, p, cfg):
        self.wq, self.wk, self.wv, self.wo = (p["attention.w_" + c] for c in "qkvo")
        self.h, self.kv, self.dh = cfg.n_heads, cfg.n_kv_heads, cfg.d_head

    def __call__(self, x, angles, past, ok, tap):
        b, t, _ = x.shape
        q = (x @ self.wq).reshape(b, t, self.h, -1).transpose(0, 2, 1, 3)
        k = (x @ self.wk).reshape(b, t, self.kv, -1).transpose(0, 2, 1, 3)
        v = (x @ self.wv).reshape(b, t, self.kv, -1).transpose(0, 2, 1, 3)
        tap("q", q)
        q, k = rotate(q, *angles), rotate(k, *angles)
        tap("q_rot", q)
        tap("k_rot", k)
        if past is not None:
            k, v = np.concatenate([past[0], k], axis=2), np.concatenate([past[1], v], axis=2)
        tap("keys", k)
        tap("values", v)
        n = self.h // self.kv
        s = q @ np.repeat(k, n, axis=1).swapaxes(2, 3)  # WRONG
        tap("scores", s)
        s = np.where(ok, s, np.float32(-1e30))
        w = np.exp(s - s.max(-1, keepdims=True))
        w = w / w.sum(-1, keepdims=True)
        tap("weights", w)
        z = w @ np.repeat(v, n, axis=1)
        return z.transpose(0, 2, 1, 3).reshape(b, t, -1) @ self.wo, (k, v)


class Model:
    def __init__(self, config, params):
        self.cfg, self.p, self.layers = config, params, []
        for i in range(config.n_layers):
            p = {k.split(".", 2)[2]: v for k, v in params.items() if k.startswith(f"layers.{i}.")}
            norms = [RMSNorm(p[f"norm{n}.weight"], config.norm_eps) for n in (1, 2)]
            self.layers.append((norms, Attention(p, config), p))

    def forward(self, tokens, attention_mask=None, positions=None, cache=None, tap=None):
        past = 0 if cache is None else cache[0][0].shape[2]
        now = tokens.shape[1]
        if positions is None:
            real = np.ones((1, past + now), dtype=bool) if attention_mask is None else attention_mask
            positions = np.maximum(real.cumsum(1) - 1, 0)[:, past:]
        freq = self.cfg.rope_theta ** (-np.arange(0, self.cfg.d_head, 2) / self.cfg.d_head)
        angle = np.atleast_2d(positions)[:, None, :, None] * freq
        ok = np.tri(now, past + now, past, dtype=bool)
        if attention_mask is not None:
            ok = ok & attention_mask[:, None, None]
        x, out = self.p["embed"][tokens], []
        for i, (norms, attention, p) in enumerate(self.layers):
            send = (lambda name, a, i=i: tap(f"layers.{i}.{name}", a)) if tap else (lambda name, a: None)
            a, kv = attention(
                norms[0](x), (np.cos(angle), np.sin(angle)), cache[i] if cache else None, ok, send
            )
            x = x + a
            send("u", x)
            h = norms[1](x)
            gate = h @ p["ffn.w_gate"]
            x = x + (gate / (1 + np.exp(-gate)) * (h @ p["ffn.w_up"])) @ p["ffn.w_down"]
            send("y", x)
            out.append(kv)
        return RMSNorm(self.p["final_norm.weight"], self.cfg.norm_eps)(x) @ self.p["lm_head"], out
