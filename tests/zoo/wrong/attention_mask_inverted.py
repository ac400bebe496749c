"""True read as "block", PyTorch's key_padding_mask habit, where True means "may be read"."""

import numpy as np

framework = "numpy"


def attention(q, k, v, mask=None, is_causal=False):
    hq, hkv = q.shape[1], k.shape[1]
    index = np.arange(hq) * hkv // hq
    bias = np.zeros((q.shape[2], k.shape[2]), dtype=np.float32)
    if is_causal:
        rows, cols = np.indices(bias.shape)
        bias[cols - rows > k.shape[2] - q.shape[2]] = -1e30
    if mask is not None:
        bias = np.where(mask, -1e30, bias)  # WRONG
    logits = np.einsum("bhqd,bhkd->bhqk", q, k[:, index]) / np.sqrt(q.shape[-1])
    logits = np.maximum(logits + bias, -1e30)
    exps = np.exp(logits - logits.max(-1, keepdims=True))
    probs = exps / exps.sum(-1, keepdims=True)
    return np.einsum("bhqk,bhkd->bhqd", probs, v[:, index])


def layer_norm(x, weight, bias, eps):
    n = x.shape[-1]
    mean = x.sum(-1, keepdims=True) / n
    var = np.square(x - mean).sum(-1, keepdims=True) / n
    return (x - mean) * (var + eps) ** -0.5 * weight + bias
