"""The heads are never split: one head as wide as the model, in a layer that was asked for several."""

import numpy as np

framework = "numpy"
variant = "minimal"


class Norm:
    def __init__(self, weight, bias, eps):
        self.weight, self.bias, self.eps = weight, bias, eps

    def __call__(self, x):
        spread = x.var(-1, keepdims=True) + self.eps
        return self.weight * (x - x.mean(-1, keepdims=True)) * spread**-0.5 + self.bias


def soft(a):
    a = np.exp(a - a.max(-1, keepdims=True))
    return a / a.sum(-1, keepdims=True)


def block(x, params, config, attention_mask=None, tap=None):
    def note(**tensors):
        for name, tensor in tensors.items() if tap else ():
            tap(name, tensor)

    first, second = (Norm(params[f"{n}.weight"], params[f"{n}.bias"], config.norm_eps) for n in ("norm1", "norm2"))
    h = first(x)
    q, k, v = (np.expand_dims(h @ params[f"attention.w_{c}"], 1) for c in "qkv")  # WRONG
    may = np.tril(np.ones((x.shape[1], x.shape[1]), bool))
    if attention_mask is not None:
        may = may & attention_mask[:, None, None, :]
    scores = q @ np.swapaxes(k, 2, 3) / q.shape[-1] ** 0.5
    weights = soft(np.where(may, scores, np.finfo(scores.dtype).min))
    z = weights @ v
    note(q=q, k=k, v=v, scores=scores, weights=weights, z=z)
    x = x + z[:, 0] @ params["attention.w_o"]
    return x + np.clip(second(x) @ params["ffn.w_1"], 0, None) @ params["ffn.w_2"]
