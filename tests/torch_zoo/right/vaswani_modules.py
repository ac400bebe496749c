"""The encoder-decoder of 2017 in modules of its own; nn.MultiheadAttention is the attention of each."""

import math

import torch
from torch import nn

framework = "torch"
dtype = ["float32", "bfloat16"]
variant = "vaswani"


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, length, dtype):
        super().__init__()
        position = torch.arange(length).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(length, d_model)
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.to(dtype))

    def forward(self, x, positions):
        return x + self.pe[positions]


def built(p, config, dtype):
    module = nn.MultiheadAttention(config.d_model, config.n_heads, batch_first=True, dtype=dtype).eval()
    module.in_proj_weight.copy_(torch.cat([p["w_q"], p["w_k"], p["w_v"]], 1).T)
    module.in_proj_bias.copy_(torch.cat([p["b_q"], p["b_k"], p["b_v"]]))
    module.out_proj.weight.copy_(p["w_o"].T)
    module.out_proj.bias.copy_(p["b_o"])
    return module


def below(params, prefix):
    return {k[len(prefix) :]: v for k, v in params.items() if k.startswith(prefix)}


class Layer(nn.Module):
    def __init__(self, p, config):
        super().__init__()
        dtype = p["ffn.w_1"].dtype
        self.p, self.config = p, config
        self.self_attn = built(below(p, "attention."), config, dtype)
        self.crosses = "cross_attention.w_q" in p
        if self.crosses:
            self.cross_attn = built(below(p, "cross_attention."), config, dtype)

    def norm(self, x, name):
        return nn.functional.layer_norm(
            x, x.shape[-1:], self.p[name + ".weight"], self.p[name + ".bias"], self.config.norm_eps
        )

    def forward(self, x, causal, memory=None):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype) if causal else None
        x = self.norm(x + self.self_attn(x, x, x, attn_mask=mask, need_weights=False)[0], "norm1")
        last = "norm2"
        if self.crosses:
            x = self.norm(x + self.cross_attn(x, memory, memory)[0], "norm2")
            last = "norm3"
        hidden = torch.relu(x @ self.p["ffn.w_1"] + self.p["ffn.b_1"])
        return self.norm(x + hidden @ self.p["ffn.w_2"] + self.p["ffn.b_2"], last)


class Model(nn.Module):
    def __init__(self, config, params):
        super().__init__()
        self.embed, self.scale = params["embed"], math.sqrt(config.d_model)
        self.position = PositionalEncoding(config.d_model, 4096, self.embed.dtype)
        self.encoder, self.decoder = (
            nn.ModuleList(Layer(below(params, f"{side}.layers.{n}."), config) for n in range(config.n_layers))
            for side in ("encoder", "decoder")
        )

    def embedded(self, tokens, positions=None):
        positions = torch.arange(tokens.shape[1]) if positions is None else positions
        return self.position(nn.functional.embedding(tokens, self.embed) * self.scale, positions)

    def forward(self, tokens, positions=None, source=None):
        memory = self.embedded(source)
        for layer in self.encoder:
            memory = layer(memory, False)
        x = self.embedded(tokens, positions)
        for layer in self.decoder:
            x = layer(x, True, memory)
        return x @ self.embed.T
