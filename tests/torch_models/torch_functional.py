"""What torch.nn.functional has of the operations, as it is."""

import torch
from torch.nn import functional

framework = "torch"
dtype = ["float32", "float64", "bfloat16", "float16"]
fully_masked = "zero"


def softmax(x, axis):
    return functional.softmax(x, dim=axis)


def layer_norm(x, weight, bias, eps):
    return functional.layer_norm(x, weight.shape, weight, bias, eps)


def rms_norm(x, weight, eps):
    return functional.rms_norm(x, weight.shape, weight, eps)


def attention(q, k, v, mask=None, is_causal=False):
    grouped = q.shape[1] != k.shape[1]
    queries, keys = q.shape[2], k.shape[2]
    if is_causal and (mask is not None or queries != keys):
        # The library counts from the first key, and takes a mask or is_causal, not both.
        lower = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
        mask, is_causal = lower if mask is None else mask & lower, False
    return functional.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, enable_gqa=grouped)


def ffn(x, w_1, b_1, w_2, b_2):
    return functional.linear(functional.relu(functional.linear(x, w_1.T, b_1)), w_2.T, b_2)


def swiglu(x, w_gate, w_up, w_down):
    return functional.linear(
        functional.silu(functional.linear(x, w_gate.T)) * functional.linear(x, w_up.T), w_down.T
    )
