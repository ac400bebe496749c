"""Llama after Meta's code: complex rotations, statistics in float32, a cache object written in place."""

import torch
import torch.nn.functional as F
from torch import nn

framework = "torch"
dtype = ["float32", "bfloat16", "float16"]
variant = {"base": "llama", "rope_layout": "interleaved"}


def precompute_freqs_cis(dim, end, theta):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    t = torch.arange(end, dtype=torch.float32)
    freqs = torch.outer(t, freqs)
    return torch.polar(torch.ones_like(freqs), freqs)


def apply_rotary_emb(x, freqs_cis):
    """x is [B, T, H, Dh]."""
    x_ = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(x_ * freqs_cis.unsqueeze(-2)).flatten(3).type_as(x)


def repeat_kv(x, n_rep):
    bs, slen, n_kv_heads, head_dim = x.shape
    if n_rep == 1:
        return x
    return (
        x[:, :, :, None, :]
        .expand(bs, slen, n_kv_heads, n_rep, head_dim)
        .reshape(bs, slen, n_kv_heads * n_rep, head_dim)
    )


class RMSNorm(nn.Module):
    def __init__(self, weight, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(weight, requires_grad=False)

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x.float()).type_as(x) * self.weight


class KVCache:
    """Storage for some positions, filled from the front."""

    def __init__(self, n_layers, batch, length, heads, d_key, d_value, dtype):
        self.k = torch.zeros(n_layers, batch, length, heads, d_key, dtype=dtype)
        self.v = torch.zeros(n_layers, batch, length, heads, d_value, dtype=dtype)
        self.start = 0

    def update(self, layer, xk, xv):
        end = self.start + xk.shape[1]
        self.k[layer, :, self.start : end] = xk
        self.v[layer, :, self.start : end] = xv
        return self.k[layer, :, :end], self.v[layer, :, :end]


class Layer(nn.Module):
    def __init__(self, args, params, n):
        super().__init__()
        p = {k.removeprefix(f"layers.{n}."): w for k, w in params.items()}
        self.args, self.n = args, n
        self.attention_norm = RMSNorm(p["norm1.weight"], args.norm_eps)
        self.ffn_norm = RMSNorm(p["norm2.weight"], args.norm_eps)
        self.wq, self.wk, self.wv, self.wo = (p[f"attention.w_{c}"].T.contiguous() for c in "qkvo")
        self.w1, self.w2, self.w3 = (p[f"ffn.w_{c}"].T.contiguous() for c in ("gate", "down", "up"))

    def forward(self, x, freqs_cis, mask, cache):
        a = self.args
        bsz, seqlen, _ = x.shape
        h = self.attention_norm(x)
        xq = F.linear(h, self.wq).view(bsz, seqlen, a.n_heads, a.d_head)
        xk = F.linear(h, self.wk).view(bsz, seqlen, a.n_kv_heads, a.d_head)
        xv = F.linear(h, self.wv).view(bsz, seqlen, a.n_kv_heads, a.d_value)
        xq, xk = apply_rotary_emb(xq, freqs_cis), apply_rotary_emb(xk, freqs_cis)
        keys, values = cache.update(self.n, xk, xv)
        keys = repeat_kv(keys, a.n_heads // a.n_kv_heads).transpose(1, 2)
        values = repeat_kv(values, a.n_heads // a.n_kv_heads).transpose(1, 2)
        scores = torch.matmul(xq.transpose(1, 2), keys.transpose(2, 3)) / a.d_head**0.5
        scores = scores.float().masked_fill(~mask, -1e30)
        weights = F.softmax(scores, dim=-1).type_as(xq)
        output = torch.matmul(weights, values).transpose(1, 2).contiguous().view(bsz, seqlen, -1)
        h = x + F.linear(output, self.wo)
        y = self.ffn_norm(h)
        return h + F.linear(F.silu(F.linear(y, self.w1)) * F.linear(y, self.w3), self.w2)


class Model(nn.Module):
    def __init__(self, config, params):
        super().__init__()
        self.args = config
        self.embed, self.head = params["embed"], params["lm_head"]
        self.layers = nn.ModuleList(Layer(config, params, n) for n in range(config.n_layers))
        self.norm = RMSNorm(params["final_norm.weight"], config.norm_eps)
        self.freqs_cis = precompute_freqs_cis(config.d_head, 4096, config.rope_theta)

    def forward(self, tokens, attention_mask=None, positions=None, cache=None):
        a = self.args
        bsz, seqlen = tokens.shape
        h = F.embedding(tokens, self.embed)
        if cache is None:
            cache = KVCache(a.n_layers, bsz, 256, a.n_kv_heads, a.d_head, a.d_value, h.dtype)
        start = cache.start
        mask = torch.arange(start + seqlen)[None] <= torch.arange(start, start + seqlen)[:, None]
        if attention_mask is not None:
            mask = mask & attention_mask[:, None, None, :]
        if positions is None:
            positions = torch.arange(start, start + seqlen)
            if attention_mask is not None:
                positions = (attention_mask.cumsum(-1)[:, start:] - 1).clamp_min(0)
        for layer in self.layers:
            h = layer(h, self.freqs_cis[positions], mask, cache)
        cache.start += seqlen
        return self.norm(h) @ self.head, cache
