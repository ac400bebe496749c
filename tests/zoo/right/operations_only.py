"""Operations alone: no model, no block, and so no variant.

Each is written from its definition in another way than usual: softmax through the
logarithm of the sum, norms through vector lengths, RoPE by 2 x 2 rotation matrices on
interleaved pairs, attention one query at a time over the keys it may read.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
fully_masked = "zero"


def softmax(x, axis):
    x = np.moveaxis(x, axis, -1)
    x = x - x.max(-1)[..., None]  # first: the log of the sum is small beside large x
    log_total = np.log(np.exp(x).sum(-1))
    return np.moveaxis(np.exp(x - log_total[..., None]), -1, axis)


def layer_norm(x, weight, bias, eps):
    d_model = x.shape[-1]
    centring = np.eye(d_model, dtype=x.dtype) - np.ones(1, x.dtype) / d_model
    centred = x @ centring  # subtracting the mean is a linear map
    length = np.linalg.norm(centred, axis=-1, keepdims=True)
    return centred / np.sqrt(length**2 / d_model + eps) * weight + bias


def rms_norm(x, weight, eps):
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    return weight * x / np.hypot(length / x.shape[-1] ** 0.5, eps**0.5)


def rope(x, positions, theta):
    d_head = x.shape[-1]
    rotated = np.empty_like(x)
    for t, position in enumerate(positions):
        for i in range(d_head // 2):
            angle = float(position) * theta ** (-2 * i / d_head)
            cos, sin = np.cos(angle), np.sin(angle)
            rotation = np.array([[cos, -sin], [sin, cos]], dtype=x.dtype)
            rotated[:, :, t, 2 * i : 2 * i + 2] = x[:, :, t, 2 * i : 2 * i + 2] @ rotation.T
    return rotated


def attention(q, k, v, mask=None, is_causal=False):
    batch, n_heads, tq, d_head = q.shape
    n_kv_heads, tk = k.shape[1:3]
    output = np.zeros((batch, n_heads, tq, v.shape[3]), dtype=v.dtype)
    weights = np.zeros((batch, n_heads, tq, tk), dtype=q.dtype)
    if mask is None:
        mask = np.ones((1, 1, 1, 1), dtype=bool)
    mask = np.broadcast_to(mask, weights.shape)
    for b, h, i in np.ndindex(batch, n_heads, tq):
        kv_head = h // (n_heads // n_kv_heads)
        readable = np.flatnonzero(mask[b, h, i])
        if is_causal:
            readable = readable[readable <= i + tk - tq]
        if len(readable) == 0:
            continue
        scores = k[b, kv_head, readable] @ q[b, h, i] / d_head**0.5
        weights[b, h, i, readable] = softmax(scores, 0)
        output[b, h, i] = weights[b, h, i, readable] @ v[b, kv_head, readable]
    return output, weights


def ffn(x, w_1, b_1, w_2, b_2):
    """A sum over hidden units: each adds its activation times its row of w_2."""
    out = np.zeros_like(x) + b_2
    for unit in range(w_1.shape[1]):
        activation = np.fmax(x @ w_1[:, unit] + b_1[unit], 0)
        out += activation[..., None] * w_2[unit]
    return out


def swiglu(x, w_gate, w_up, w_down):
    gate, up = np.split(x @ np.concatenate([w_gate, w_up], axis=1), 2, axis=-1)
    return (gate * up / (1 + np.exp(np.clip(-gate, None, 80)))) @ w_down
