"""torch.nn.TransformerEncoderLayer and, where there is a context, TransformerDecoderLayer."""

import functools

from _modules import default_dtype, later, put_layer
from torch import nn
from torch.nn import functional

framework = "torch"
dtype = ["float32", "float64", "bfloat16", "float16"]
variant = [
    {"base": "minimal", "bias": "all"},
    {"base": "minimal", "bias": "all", "norm_placement": "post"},
    {"base": "minimal", "bias": "all", "ffn": "gelu", "causal": False},
    {"base": "minimal", "bias": "all", "ffn": "gelu_tanh"},
    {"base": "minimal", "norm_bias": False},
    {"base": "vaswani", "position": "none"},
]
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_tanh": functools.partial(functional.gelu, approximate="tanh"),
}


def block(x, params, config, context=None, attention_mask=None):
    kind = nn.TransformerEncoderLayer if context is None else nn.TransformerDecoderLayer
    with default_dtype(x.dtype):
        module = kind(
            config.d_model,
            config.n_heads,
            config.d_ff,
            dropout=0.0,
            activation=ACTIVATIONS[config.ffn],
            layer_norm_eps=config.norm_eps,
            batch_first=True,
            norm_first=config.norm_placement == "pre",
            bias=config.bias == "all",
        ).eval()
    put_layer(module, params)
    mask = later(x.shape[1]) if config.causal else None
    hidden = None if attention_mask is None else ~attention_mask
    if context is None:
        return module(x, src_mask=mask, src_key_padding_mask=hidden)
    return module(x, context, tgt_mask=mask, tgt_key_padding_mask=hidden)
