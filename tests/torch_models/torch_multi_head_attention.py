"""torch.nn.MultiheadAttention, without and with biases."""

from _modules import default_dtype, later, put_attention
from torch import nn

framework = "torch"
dtype = ["float32", "float64", "bfloat16", "float16"]
variant = [
    "minimal",
    {"base": "minimal", "bias": "all"},
    {"base": "minimal", "causal": False},
]
fully_masked = "avoids"


def multi_head_attention(x, params, config, context=None, attention_mask=None):
    if config.n_heads * config.d_head != config.d_model or config.d_value != config.d_head:
        raise NotImplementedError("its heads share the width of the model evenly")
    with default_dtype(x.dtype):
        module = nn.MultiheadAttention(config.d_model, config.n_heads, bias="b_q" in params, batch_first=True)
    put_attention(module.eval(), params)
    if context is not None:
        return module(x, context, context, need_weights=False)[0]
    hidden = None if attention_mask is None else ~attention_mask
    mask = later(x.shape[1]) if config.causal else None
    return module(x, x, x, key_padding_mask=hidden, attn_mask=mask, need_weights=False)[0]
