"""torch.nn.TransformerEncoderLayer with norm_first, inside a module of one's own, without a causal mask."""

import torch
from torch import nn

framework = "torch"
dtype = ["float32", "bfloat16"]
variant = {"base": "minimal", "bias": "all", "causal": False}

TABLE = {
    "self_attn.out_proj.weight": "attention.w_o",
    "self_attn.out_proj.bias": "attention.b_o",
    "linear1.weight": "ffn.w_1",
    "linear1.bias": "ffn.b_1",
    "linear2.weight": "ffn.w_2",
    "linear2.bias": "ffn.b_2",
    "norm1.weight": "norm1.weight",
    "norm1.bias": "norm1.bias",
    "norm2.weight": "norm2.weight",
    "norm2.bias": "norm2.bias",
}


class Encoder(nn.Module):
    def __init__(self, config, params):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(
            config.d_model,
            config.n_heads,
            config.d_ff,
            dropout=0.1,
            layer_norm_eps=config.norm_eps,
            batch_first=True,
            norm_first=True,
            dtype=params["ffn.w_1"].dtype,
        )
        weights = {mine: params[name].T if ".w_" in name else params[name] for mine, name in TABLE.items()}
        weights["self_attn.in_proj_weight"] = torch.cat([params["attention.w_" + c].T for c in "qkv"])
        weights["self_attn.in_proj_bias"] = torch.cat([params["attention.b_" + c] for c in "qkv"])
        self.layer.load_state_dict(weights)

    def forward(self, x, attention_mask):
        return self.layer(x, src_key_padding_mask=None if attention_mask is None else ~attention_mask)


def block(x, params, config, attention_mask=None):
    return Encoder(config, params).eval()(x, attention_mask)
