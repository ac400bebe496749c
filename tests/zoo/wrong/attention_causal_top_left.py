"""Causal triangle aligned to the top left: np.tril of the score shape, as in a training loop."""

import numpy as np

framework = "numpy"
fully_masked = "zero"


def attention(q, k, v, mask=None, is_causal=False):
    n_rep = q.shape[1] // k.shape[1]
    keys = np.repeat(k, n_rep, axis=1)
    values = np.repeat(v, n_rep, axis=1)
    sim = q @ keys.transpose(0, 1, 3, 2)
    sim = sim / q.shape[-1] ** 0.5
    keep = np.ones(sim.shape, dtype=bool)
    if is_causal:
        keep = keep & np.tril(np.ones(sim.shape[-2:], dtype=bool))  # WRONG
    if mask is not None:
        keep = keep & mask
    sim = np.where(keep, sim, -np.inf)
    best = sim.max(axis=-1, keepdims=True)
    best[np.isneginf(best)] = 0
    p = np.exp(sim - best)
    norm = p.sum(axis=-1, keepdims=True)
    norm[norm == 0] = 1
    return (p / norm) @ values


def swiglu(x, w_gate, w_up, w_down):
    def silu(z):
        return z / (1.0 + np.exp(-z))

    return (silu(x @ w_gate) * (x @ w_up)) @ w_down
