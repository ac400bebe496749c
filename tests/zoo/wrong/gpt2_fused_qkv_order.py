"""The fused projection is built as q, k, v and taken apart as k, q, v: minGPT's and HF's orders mixed."""

import numpy as np

framework = "numpy"
variant = "gpt2"


class CausalSelfAttention:
    def __init__(self, p, n_head):
        self.n_head = n_head
        self.c_attn = np.concatenate([p["attention.w_q"], p["attention.w_k"], p["attention.w_v"]], axis=1)
        self.c_attn_bias = np.concatenate([p["attention.b_q"], p["attention.b_k"], p["attention.b_v"]])
        self.c_proj, self.c_proj_bias = p["attention.w_o"], p["attention.b_o"]
        self.n = p["attention.w_q"].shape[1]

    def __call__(self, x, allowed, record):
        B, T, _ = x.shape
        qkv = x @ self.c_attn + self.c_attn_bias
        k, q, v = np.split(qkv, [self.n, 2 * self.n], axis=2)  # WRONG
        q, k, v = (a.reshape(B, T, self.n_head, -1).transpose(0, 2, 1, 3) for a in (q, k, v))
        record("q", q)
        record("k", k)
        record("v", v)
        att = (q @ k.transpose(0, 1, 3, 2)) * (1.0 / np.sqrt(np.float32(q.shape[-1])))
        att = np.where(allowed, att, np.float32(-1e30))
        att = np.exp(att - att.max(axis=-1, keepdims=True))
        att = att / att.sum(axis=-1, keepdims=True)
        record("weights", att)
        y = (att @ v).transpose(0, 2, 1, 3).reshape(B, T, -1)
        record("concat", y)
        return y @ self.c_proj + self.c_proj_bias


class Model:
    def __init__(self, config, params):
        self.eps = config.norm_eps
        self.top = params
        self.layers = []
        for i in range(config.n_layers):
            p = {k.split(".", 2)[2]: v for k, v in params.items() if k.startswith(f"layers.{i}.")}
            self.layers.append((p, CausalSelfAttention(p, config.n_heads)))

    def norm(self, x, p, name):
        mu = x.mean(-1, keepdims=True)
        sigma2 = ((x - mu) ** 2).mean(-1, keepdims=True)
        return (x - mu) / np.sqrt(sigma2 + self.eps) * p[name + ".weight"] + p[name + ".bias"]

    def forward(self, tokens, attention_mask=None, positions=None, tap=None):
        T = tokens.shape[1]
        allowed = np.tril(np.ones((1, 1, T, T), dtype=bool))
        if positions is None:
            positions = np.arange(T)
            if attention_mask is not None:
                positions = np.clip(attention_mask.cumsum(1) - 1, 0, None)
        if attention_mask is not None:
            allowed = allowed & attention_mask[:, None, None, :]
        x = self.top["embed"][tokens] + self.top["position_embed"][positions]
        for i, (p, attn) in enumerate(self.layers):
            record = (lambda name, a, i=i: tap(f"layers.{i}.{name}", a)) if tap else (lambda name, a: None)
            record("x", x)
            x = x + attn(self.norm(x, p, "norm1"), allowed, record)
            record("u", x)
            f = self.norm(x, p, "norm2") @ p["ffn.w_1"] + p["ffn.b_1"]
            f = 0.5 * f * (1.0 + np.tanh(0.7978845608 * (f + 0.044715 * f * f * f)))
            x = x + f @ p["ffn.w_2"] + p["ffn.b_2"]
            record("y", x)
        return self.norm(x, self.top, "final_norm") @ self.top["embed"].T
