"""The norm's moments run over tokens and features, so a later token moves an earlier one."""

import numpy as np

framework = "numpy"
variant = "gpt2"


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def norm(self, x, name):
        axis = (1, 2)  # WRONG
        mean, var = x.mean(axis=axis, keepdims=True), x.var(axis=axis, keepdims=True)
        return (x - mean) / np.sqrt(var + self.config.norm_eps) * self.params[f"{name}.weight"] + self.params[
            f"{name}.bias"
        ]

    def attention(self, x, name, allowed):
        c, p = self.config, self.params
        out = np.broadcast_to(p[name + ".b_o"], (*x.shape[:2], c.d_model)).copy()
        for h in range(c.n_heads):
            a, b = slice(h * c.d_head, (h + 1) * c.d_head), slice(h * c.d_value, (h + 1) * c.d_value)
            q = x @ p[name + ".w_q"][:, a] + p[name + ".b_q"][a]
            k = x @ p[name + ".w_k"][:, a] + p[name + ".b_k"][a]
            v = x @ p[name + ".w_v"][:, b] + p[name + ".b_v"][b]
            s = np.einsum("bqd,bkd->bqk", q, k) * c.d_head**-0.5
            s = np.where(allowed, s, -1e30)
            w = np.exp(s - s.max(2, keepdims=True))
            out = out + np.einsum("bqk,bkd->bqd", w / w.sum(2, keepdims=True), v) @ p[name + ".w_o"][b]
        return out

    def mlp(self, x, name):
        h = x @ self.params[name + ".w_1"] + self.params[name + ".b_1"]
        h = h * 0.5 * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (h + 0.044715 * h**3)))
        return h @ self.params[name + ".w_2"] + self.params[name + ".b_2"]

    def forward(self, tokens, attention_mask=None, positions=None):
        t = tokens.shape[1]
        allowed = np.tri(t, dtype=bool)[None]
        if attention_mask is not None:
            allowed = allowed & attention_mask[:, None, :]
            positions = np.maximum(attention_mask.cumsum(1) - 1, 0) if positions is None else positions
        positions = np.arange(t) if positions is None else positions
        x = self.params["embed"][tokens] + self.params["position_embed"][positions]
        for i in range(self.config.n_layers):
            x = x + self.attention(self.norm(x, f"layers.{i}.norm1"), f"layers.{i}.attention", allowed)
            x = x + self.mlp(self.norm(x, f"layers.{i}.norm2"), f"layers.{i}.ffn")
        return self.norm(x, "final_norm") @ self.params["embed"].T
