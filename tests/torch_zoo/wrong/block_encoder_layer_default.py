"""nn.TransformerEncoderLayer is post-norm unless norm_first is given."""

import torch
from torch import nn

framework = "torch"
variant = {"base": "minimal", "bias": "all"}
NAMES = {"self_attn.out_proj": "attention.{}_o", "linear1": "ffn.{}_1", "linear2": "ffn.{}_2"}


def weights_of(params):
    yield "self_attn.in_proj_weight", torch.cat([params["attention.w_" + c] for c in "qkv"], 1).T
    yield "self_attn.in_proj_bias", torch.cat([params["attention.b_" + c] for c in "qkv"])
    for mine, name in NAMES.items():
        yield mine + ".weight", params[name.format("w")].T
        yield mine + ".bias", params[name.format("b")]
    for norm in ("norm1", "norm2"):
        yield norm + ".weight", params[norm + ".weight"]
        yield norm + ".bias", params[norm + ".bias"]


def block(x, params, config):
    layer = nn.TransformerEncoderLayer(
        config.d_model, config.n_heads, config.d_ff, dropout=0.0, layer_norm_eps=config.norm_eps, batch_first=True
    )
    layer.to(x.dtype).load_state_dict(dict(weights_of(params)))
    causal = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
    return layer.eval()(x, src_mask=causal, is_causal=True)  # WRONG
