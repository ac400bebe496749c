"""Putting the contract's parameters into the modules of torch.nn."""

import contextlib
import warnings

import torch


@contextlib.contextmanager
def default_dtype(dtype):
    """Modules are made in this dtype: none is converted afterwards, buffers included."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_default_dtype(before)


def beneath(params, prefix):
    """The parameters under a prefix, without it."""
    return {name[len(prefix) :]: value for name, value in params.items() if name.startswith(prefix)}


def put(target, value):
    """Copy a value into a parameter; a module may have none (None) where the contract has none either."""
    if target is not None or value is not None:
        target.data.copy_(value)


def put_linear(layer, params, weight, bias):
    put(layer.weight, params[weight].T)
    put(layer.bias, params.get(bias))


def put_norm(layer, params):
    put(layer.weight, params["weight"])
    put(layer.bias, params.get("bias"))


def put_attention(module, params):
    put(module.in_proj_weight, torch.cat([params["w_" + letter].T for letter in "qkv"]))
    if module.in_proj_bias is not None:
        put(module.in_proj_bias, torch.cat([params["b_" + letter] for letter in "qkv"]))
    put_linear(module.out_proj, params, "w_o", "b_o")


def put_layer(module, params):
    """A TransformerEncoderLayer, or a TransformerDecoderLayer."""
    put_attention(module.self_attn, beneath(params, "attention."))
    if hasattr(module, "multihead_attn"):
        put_attention(module.multihead_attn, beneath(params, "cross_attention."))
        put_norm(module.norm3, beneath(params, "norm3."))
    put_linear(module.linear1, params, "ffn.w_1", "ffn.b_1")
    put_linear(module.linear2, params, "ffn.w_2", "ffn.b_2")
    put_norm(module.norm1, beneath(params, "norm1."))
    put_norm(module.norm2, beneath(params, "norm2."))


def later(length):
    """True where a causal query may not look."""
    return torch.ones(length, length, dtype=torch.bool).triu(1)
