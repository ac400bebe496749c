"""The minimal structure with the scale shared between q and k: each over Dh^(1/4).

The keys are scaled before they enter the cache. `attention` and
`multi_head_attention` do the same; the model's cache is one array per layer,
[2, B, H, Tk, Dh], when keys and values are equally wide, else a pair.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = "minimal"
fully_masked = "zero"


def scale(x):
    return x / x.shape[-1] ** 0.25


def weigh(q, k, visible):
    """Weights [B, H, Tq, Tk] from scaled q and k; zeros where nothing is visible."""
    with_fill = np.where(visible, q @ k.swapaxes(2, 3), -np.inf)
    top = with_fill.max(3, keepdims=True)
    exponentials = np.exp(with_fill - np.nan_to_num(top, neginf=0.0))
    return exponentials / exponentials.sum(3, keepdims=True).clip(min=1e-37)


def causal(tq, tk):
    return np.tri(tq, tk, tk - tq, dtype=bool)


def attention(q, k, v, mask=None, is_causal=False):
    repeat = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, repeat, 1), np.repeat(v, repeat, 1)
    visible = causal(q.shape[2], k.shape[2]) if is_causal else np.array(True)
    if mask is not None:
        visible = visible & mask
    weights = weigh(scale(q), scale(k), visible)
    return weights @ v, weights


def layer_norm(x, weight, bias, eps):
    mean = np.mean(x, -1, keepdims=True)
    x = x - mean
    return x * weight / np.sqrt(np.mean(x**2, -1, keepdims=True) + eps) + bias


def heads(x, count):
    return x.reshape(x.shape[0], x.shape[1], count, -1).transpose(0, 2, 1, 3)


def multi_head_attention(x, params, config, context=None, attention_mask=None):
    source = x if context is None else context
    q = scale(heads(x @ params["w_q"], config.n_heads))
    k = scale(heads(source @ params["w_k"], config.n_heads))
    v = heads(source @ params["w_v"], config.n_heads)
    visible = np.array(True)
    if context is None:
        visible = causal(x.shape[1], x.shape[1])
        if attention_mask is not None:
            visible = visible & attention_mask[:, None, None]
    z = (weigh(q, k, visible) @ v).transpose(0, 2, 1, 3)
    return z.reshape(*x.shape[:2], -1) @ params["w_o"]


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def norm(self, x, name):
        p = self.params
        return layer_norm(x, p[name + ".weight"], p[name + ".bias"], self.config.norm_eps)

    def forward(self, tokens, attention_mask=None, cache=None):
        c, p = self.config, self.params
        x = p["embed"][tokens]
        new_cache = {}
        for n in range(c.n_layers):
            name = f"layers.{n}.attention."
            normed = self.norm(x, f"layers.{n}.norm1")
            q = scale(heads(normed @ p[name + "w_q"], c.n_heads))
            k = scale(heads(normed @ p[name + "w_k"], c.n_heads))
            v = heads(normed @ p[name + "w_v"], c.n_heads)
            if cache is not None:
                old_k, old_v = cache[n]
                k, v = np.concatenate([old_k, k], 2), np.concatenate([old_v, v], 2)
            new_cache[n] = np.stack([k, v]) if k.shape == v.shape else (k, v)
            visible = causal(q.shape[2], k.shape[2])
            if attention_mask is not None:
                visible = visible & attention_mask[:, None, None]
            z = (weigh(q, k, visible) @ v).transpose(0, 2, 1, 3)
            x = x + z.reshape(*x.shape[:2], -1) @ p[name + "w_o"]
            hidden = self.norm(x, f"layers.{n}.norm2") @ p[f"layers.{n}.ffn.w_1"]
            x = x + (hidden * (hidden > 0)) @ p[f"layers.{n}.ffn.w_2"]
        return self.norm(x, "final_norm") @ p["lm_head"], new_cache
