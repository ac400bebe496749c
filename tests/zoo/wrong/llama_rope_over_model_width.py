"""The exponent divides by d_model where the head's width belongs: the table was built before the split."""

import numpy as np

framework = "numpy"
variant = "llama"


class Rotary:
    def __init__(self, config):
        width = np.arange(0, config.d_head, 2)
        self.rates = config.rope_theta ** (-width / config.d_model)  # WRONG

    def __call__(self, x, positions):
        phase = np.asarray(positions)[..., np.newaxis] * self.rates
        phase = phase[..., np.newaxis, :]
        low, high = np.split(x, 2, axis=-1)
        cos, sin = np.cos(phase), np.sin(phase)
        return np.concatenate([low * cos - high * sin, low * sin + high * cos], axis=-1)


def rms(x, gain, eps):
    return gain * (x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps))


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params
        self.rotary = Rotary(config)

    def attend(self, h, name, positions, cache, allowed):
        c, p = self.config, self.params
        b, t, _ = h.shape
        q = self.rotary((h @ p[name + ".w_q"]).reshape(b, t, c.n_heads, c.d_head), positions)
        k = self.rotary((h @ p[name + ".w_k"]).reshape(b, t, c.n_kv_heads, c.d_head), positions)
        v = (h @ p[name + ".w_v"]).reshape(b, t, c.n_kv_heads, c.d_value)
        old = cache.get(name)
        if old is not None:
            k, v = np.concatenate([old[0], k], axis=1), np.concatenate([old[1], v], axis=1)
        cache[name] = (k, v)
        out = np.empty((b, t, c.n_heads, c.d_value), dtype=h.dtype)
        share = c.n_heads // c.n_kv_heads
        for head in range(c.n_heads):
            s = np.einsum("bqd,bkd->bqk", q[:, :, head], k[:, :, head // share]) / c.d_head**0.5
            s = np.where(allowed, s, -1e30)
            s = np.exp(s - s.max(axis=2, keepdims=True))
            out[:, :, head] = np.einsum(
                "bqk,bkd->bqd", s / s.sum(axis=2, keepdims=True), v[:, :, head // share]
            )
        return out.reshape(b, t, -1) @ p[name + ".w_o"]

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        c, p = self.config, self.params
        cache = {"n": 0} if cache is None else cache
        n, t = cache["n"], tokens.shape[1]
        positions = np.arange(n, n + t) if positions is None else positions
        allowed = np.tri(t, n + t, n, dtype=bool)[None]
        if attention_mask is not None:
            allowed = allowed & attention_mask[:, None, :]
        x = p["embed"][tokens]
        for i in range(c.n_layers):
            h = rms(x, p[f"layers.{i}.norm1.weight"], c.norm_eps)
            x = x + self.attend(h, f"layers.{i}.attention", positions, cache, allowed)
            h = rms(x, p[f"layers.{i}.norm2.weight"], c.norm_eps)
            gate = h @ p[f"layers.{i}.ffn.w_gate"]
            gate = gate / (1 + np.exp(-gate))
            x = x + (gate * (h @ p[f"layers.{i}.ffn.w_up"])) @ p[f"layers.{i}.ffn.w_down"]
        cache["n"] = n + t
        return rms(x, p["final_norm.weight"], c.norm_eps) @ p["lm_head"], cache
