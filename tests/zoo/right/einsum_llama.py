"""Llama with every contraction written as an einsum, and every tap.

The weights are reshaped to have a head axis of their own ([D, Hkv, G, Dh]), so heads
are never split from or merged into a flat axis; only taps are brought into the
canonical shape.
"""

from types import SimpleNamespace

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = "llama"
fully_masked = "zero"


def rms_norm(x, weight, eps):
    mean_square = np.einsum("...d,...d->...", x, x) / x.shape[-1]
    return np.einsum("...d,...,d->...d", x, (mean_square + eps) ** -0.5, weight)


def swiglu(x, w_gate, w_up, w_down, tap=lambda name, tensor: None):
    gate = np.einsum("btd,df->btf", x, w_gate)
    up = np.einsum("btd,df->btf", x, w_up)
    hidden = gate * np.exp(-np.logaddexp(0, -gate)) * up  # log sigmoid, exponentiated
    out = np.einsum("btf,fd->btd", hidden, w_down)
    for name, tensor in zip(("ffn_gate", "ffn_up", "ffn_hidden", "ffn_out"), (gate, up, hidden, out)):
        tap(name, tensor)
    return out


def rope(x, positions, theta):
    d_head = x.shape[-1]
    frequency = np.power(theta, -np.arange(0, d_head, 2) / d_head)
    positions = np.atleast_2d(positions)
    angle = np.einsum("bt,i->bti", positions.astype(np.float64), frequency)[:, None]
    turn = np.stack(  # [2, 2, B or 1, 1, T, Dh/2]: a rotation matrix for each pair
        [
            np.stack([np.cos(angle), -np.sin(angle)]),
            np.stack([np.sin(angle), np.cos(angle)]),
        ]
    ).astype(x.dtype)
    pairs = np.stack(np.split(x, 2, axis=-1))  # [2, B, H, T, Dh/2]
    return np.concatenate(np.einsum("pq...,q...->p...", turn, pairs), axis=-1)


class Model:
    def __init__(self, config, params):
        self.config, self.p = config, params
        c = config
        shape = {
            "w_q": (c.d_model, c.n_kv_heads, c.n_heads // c.n_kv_heads, c.d_head),
            "w_k": (c.d_model, c.n_kv_heads, c.d_head),
            "w_v": (c.d_model, c.n_kv_heads, c.d_value),
            "w_o": (c.n_kv_heads, c.n_heads // c.n_kv_heads, c.d_value, c.d_model),
        }
        self.attention_weights = [
            SimpleNamespace(**{w: params[f"layers.{n}.attention.{w}"].reshape(shape[w]) for w in shape})
            for n in range(c.n_layers)
        ]

    def attention(self, n, x, positions, visible, past, tap):
        c, w = self.config, self.attention_weights[n]

        def as_heads(tensor):  # [B, Hkv, G, T, ..] -> [B, H, T, ..]
            return tensor.reshape(tensor.shape[0], c.n_heads, *tensor.shape[3:])

        q = np.einsum("btd,dkgh->bkgth", x, w.w_q)
        k = np.einsum("btd,dkh->bkth", x, w.w_k)
        v = np.einsum("btd,dkh->bkth", x, w.w_v)
        q_rot = rope(as_heads(q), positions, c.rope_theta).reshape(q.shape)
        k_rot = rope(k, positions, c.rope_theta)
        keys = np.concatenate([past[0], k_rot], axis=2) if past else k_rot
        values = np.concatenate([past[1], v], axis=2) if past else v

        scores = np.einsum("bkgth,bksh->bkgts", q_rot, keys) * c.d_head**-0.5
        masked = np.where(visible[:, None, None], scores, -np.inf)
        top = np.max(masked, axis=-1, keepdims=True, initial=np.finfo(x.dtype).min)
        exponentials = np.exp(masked - top)
        total = np.einsum("bkgts->bkgt", exponentials)[..., None]
        weights = exponentials / np.maximum(total, np.finfo(x.dtype).tiny)
        z = np.einsum("bkgts,bksh->bkgth", weights, values)
        out = np.einsum("bkgth,kghd->btd", z, w.w_o)

        for name, tensor in (("q", q), ("q_rot", q_rot), ("scores", scores)):
            tap(name, as_heads(tensor))
        for name, tensor in (("masked_scores", masked), ("weights", weights), ("z", z)):
            tap(name, as_heads(tensor))
        tap("k", k)
        tap("v", v)
        tap("k_rot", k_rot)
        tap("keys", keys)
        tap("values", values)
        tap("concat", np.einsum("bhtd->bthd", as_heads(z)).reshape(*x.shape[:2], -1))
        tap("attn_out", out)
        return out, (keys, values)

    def forward(self, tokens, attention_mask=None, positions=None, cache=None, tap=None):
        tap = tap or (lambda name, tensor: None)
        c, p = self.config, self.p
        new = tokens.shape[1]
        total = new + (cache[0][0].shape[2] if cache else 0)
        if attention_mask is None:
            attention_mask = np.ones((1, total), dtype=bool)
        if positions is None:
            positions = np.maximum(np.cumsum(attention_mask, 1) - 1, 0)[:, -new:]
        index = np.arange(total)
        visible = attention_mask[:, None] & (index <= index[-new:, None])

        y = p["embed"][tokens]
        new_cache = []
        for n in range(c.n_layers):

            def layer_tap(name, tensor, n=n):
                tap(f"layers.{n}.{name}", tensor)

            x = y
            norm1 = rms_norm(x, p[f"layers.{n}.norm1.weight"], c.norm_eps)
            past = cache[n] if cache else None
            attn_out, present = self.attention(n, norm1, positions, visible, past, layer_tap)
            u = x + attn_out
            norm2 = rms_norm(u, p[f"layers.{n}.norm2.weight"], c.norm_eps)
            ffn = [p[f"layers.{n}.ffn.w_{part}"] for part in ("gate", "up", "down")]
            y = u + swiglu(norm2, *ffn, tap=layer_tap)
            new_cache.append(present)
            for name, tensor in zip(("x", "norm1", "u"), (x, norm1, u)):
                layer_tap(name, tensor)
            layer_tap("norm2", norm2)
            layer_tap("y", y)
        final = rms_norm(y, p["final_norm.weight"], c.norm_eps)
        logits = np.einsum("btd,dv->btv", final, p["lm_head"])
        tap("final", final)
        tap("logits", logits)
        return logits, new_cache
