"""GPT-2 without a cache: `forward` has no `cache` argument and returns logits alone.

Also `multi_head_attention` and `block`, which the model calls under its own names.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = "gpt2"
fully_masked = "zero"


def softmax(x, axis):
    x = x - np.amax(x, axis=axis, keepdims=True)
    np.exp(x, out=x)
    x /= np.sum(x, axis=axis, keepdims=True)
    return x


def layer_norm(x, weight, bias, eps):
    return (x - x.mean(-1)[..., None]) / np.sqrt(x.var(-1) + eps)[..., None] * weight + bias


def attention(q, k, v, mask=None, is_causal=False):
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat(groups, axis=1), v.repeat(groups, axis=1)
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[3] ** 0.5
    tq, tk = scores.shape[2:]
    hidden = np.zeros((1, 1, tq, tk), dtype=bool)
    if is_causal:
        hidden = hidden | (np.arange(tk)[None] - (tk - tq) > np.arange(tq)[:, None])
    if mask is not None:
        hidden = hidden | ~mask
    blind = hidden.all(axis=3, keepdims=True)
    scores = np.where(hidden & ~blind, -np.inf, scores)
    return np.where(blind, 0.0, softmax(scores, 3)) @ v


def multi_head_attention(x, params, config, context=None, attention_mask=None):
    source = x if context is None else context
    n_batch = x.shape[0]

    def project(y, letter, heads):
        y = y @ params["w_" + letter] + params["b_" + letter]
        return y.reshape(n_batch, y.shape[1], heads, -1).transpose(0, 2, 1, 3)

    q = project(x, "q", config.n_heads)
    k = project(source, "k", config.n_kv_heads)
    v = project(source, "v", config.n_kv_heads)
    mask = None
    if attention_mask is not None and context is None:
        mask = attention_mask[:, None, None, :]
    z = attention(q, k, v, mask=mask, is_causal=context is None)
    z = z.transpose(0, 2, 1, 3).reshape(n_batch, x.shape[1], -1)
    return z @ params["w_o"] + params["b_o"]


def block(x, params, config, attention_mask=None):
    def norm(y, name):
        weight, bias = params[name + ".weight"], params[name + ".bias"]
        return layer_norm(y, weight, bias, config.norm_eps)

    inside = {name.split(".")[1]: value for name, value in params.items() if name.startswith("attention.")}
    u = x + multi_head_attention(norm(x, "norm1"), inside, config, attention_mask=attention_mask)
    hidden = norm(u, "norm2") @ params["ffn.w_1"] + params["ffn.b_1"]
    inner = 0.7978845608028654 * hidden * (1 + 0.044715 * hidden**2)
    hidden = hidden * (1 + np.tanh(inner)) / 2
    return u + hidden @ params["ffn.w_2"] + params["ffn.b_2"]


class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def forward(self, tokens, attention_mask=None, positions=None):
        params = self.params
        if positions is None:
            real = np.ones_like(tokens) if attention_mask is None else attention_mask
            positions = np.maximum(np.cumsum(real, axis=1) - 1, 0)
        x = params["embed"][tokens] + params["position_embed"][positions]
        for n in range(self.config.n_layers):
            start = f"layers.{n}."
            layer = {name[len(start) :]: value for name, value in params.items() if name.startswith(start)}
            x = block(x, layer, self.config, attention_mask=attention_mask)
        weight, bias = params["final_norm.weight"], params["final_norm.bias"]
        return layer_norm(x, weight, bias, self.config.norm_eps) @ params["embed"].T
