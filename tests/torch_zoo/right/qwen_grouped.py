"""Grouped queries with biases on q, k, v only; the projections are one Linear, grouped by key head."""

import torch
import torch.nn.functional as F

framework = "torch"
dtype = ["float32", "float16"]
variant = {"base": "llama", "bias": "qkv"}


class GroupedAttention(torch.nn.Module):
    def __init__(self, params, config):
        super().__init__()
        self.config = config
        g, hkv, d = config.n_heads // config.n_kv_heads, config.n_kv_heads, config.d_head

        def grouped(q, k, v):
            """[..., hkv, g + 2, width]: each key head's queries, its key, its value."""
            return torch.cat([q.unflatten(-1, (hkv, g * d)), k.unflatten(-1, (hkv, d)), v.unflatten(-1, (hkv, -1))], -1)

        self.weight = grouped(*(params["w_" + c] for c in "qkv")).flatten(1)
        self.bias = grouped(*(params["b_" + c] for c in "qkv")).flatten()
        self.out = params["w_o"]
        inv = config.rope_theta ** (-torch.arange(0, d, 2, dtype=torch.float32) / d)
        self.register_buffer("table", torch.outer(torch.arange(4096.0), inv))

    def turned(self, x, positions):
        angle = self.table[positions]
        angle = angle[:, None] if angle.dim() == 3 else angle
        a, b = x.float().chunk(2, -1)
        cos, sin = angle.cos(), angle.sin()
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)

    def forward(self, x, positions, mask):
        c = self.config
        g = c.n_heads // c.n_kv_heads
        qkv = (x @ self.weight + self.bias).unflatten(-1, (c.n_kv_heads, -1))
        q, k, v = qkv.split([g * c.d_head, c.d_head, c.d_value], dim=-1)
        q = q.unflatten(-1, (g, c.d_head)).flatten(2, 3)
        q, k, v = (t.permute(0, 2, 1, 3) for t in (q, k, v))
        q, k = self.turned(q, positions), self.turned(k, positions)
        if mask is None:
            z = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            z = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return z.permute(0, 2, 1, 3).flatten(2) @ self.out


def multi_head_attention(x, params, config, attention_mask=None, positions=None):
    mask = None
    if attention_mask is not None:
        mask = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril() & attention_mask[:, None, None]
        if positions is None:
            positions = (attention_mask.cumsum(1) - 1).clamp(min=0)
    if positions is None:
        positions = torch.arange(x.size(1))
    return GroupedAttention(params, config)(x, positions, mask)
