"""torch.nn.Transformer as the original encoder-decoder; embeddings and sinusoids are left to its user.

It takes no mask of padding: see `_torch_transformer_padded`.
"""

import torch
from _modules import beneath, default_dtype, later, put_layer
from torch import nn
from torch.nn import functional

framework = "torch"
dtype = ["float32", "float64", "bfloat16", "float16"]
variant = "vaswani"


class Model:
    def __init__(self, config, params):
        self.config, self.embed = config, params["embed"]
        sizes = (config.d_model, config.n_heads, config.d_ff)
        more = {"dropout": 0.0, "layer_norm_eps": config.norm_eps, "batch_first": True}
        n = config.n_layers
        with default_dtype(self.embed.dtype):
            # Its own encoder and decoder would end in a norm, which post-norm does not need.
            encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(*sizes, **more), n)
            decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(*sizes, **more), n)
            self.transformer = nn.Transformer(
                *sizes[:2], custom_encoder=encoder, custom_decoder=decoder, batch_first=True
            ).eval()
        for side in ("encoder", "decoder"):
            for i, module in enumerate(getattr(self.transformer, side).layers):
                put_layer(module, beneath(params, f"{side}.layers.{i}."))

    def embedded(self, tokens, positions):
        width = self.config.d_model
        feature = torch.arange(width)
        frequency = 10000.0 ** (-(feature - feature % 2).double() / width)
        angle = positions[..., None] * frequency
        waves = torch.where(feature % 2 == 0, angle.sin(), angle.cos())
        return functional.embedding(tokens, self.embed) * width**0.5 + waves.to(self.embed.dtype)

    def forward(self, tokens, positions=None, source=None):
        return self.logits(tokens, source, positions=positions)

    def logits(self, tokens, source, attention_mask=None, positions=None):
        if positions is None:
            real = torch.ones_like(tokens) if attention_mask is None else attention_mask.long()
            positions = (real.cumsum(1) - 1).clamp(min=0)
        out = self.transformer(
            self.embedded(source, torch.arange(source.shape[1])),
            self.embedded(tokens, positions),
            tgt_mask=later(tokens.shape[1]),
            tgt_key_padding_mask=None if attention_mask is None else ~attention_mask,
        )
        return functional.linear(out, self.embed)
