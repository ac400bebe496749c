"""Values come from Wk: a copied line whose letter was changed on the left side only."""

import numpy as np

framework = "numpy"
variant = "minimal"


def multi_head_attention(x, params, config, attention_mask=None):
    W_q, W_k, W_v, W_o = params["w_q"], params["w_k"], params["w_v"], params["w_o"]
    B, T, _ = x.shape
    H = config.n_heads
    K = np.matmul(x, W_k).reshape(B, T, config.n_kv_heads, -1)
    V = np.matmul(x, W_k).reshape(B, T, config.n_kv_heads, -1)  # WRONG
    Q = np.matmul(x, W_q).reshape(B, T, H, -1)
    outputs = np.zeros((B, T, H, V.shape[-1]), dtype=x.dtype)
    for b in range(B):
        present = np.ones(T, dtype=bool) if attention_mask is None else attention_mask[b]
        for h in range(H):
            g = h // (H // config.n_kv_heads)
            for t in range(T):
                seen = np.flatnonzero(present[: t + 1])
                if len(seen) == 0:
                    continue
                logits = K[b, seen, g] @ Q[b, t, h] / config.d_head**0.5
                p = np.exp(logits - logits.max())
                outputs[b, t, h] = p @ V[b, seen, g] / p.sum()
    assert W_v.shape[1] == config.n_kv_heads * config.d_value
    return outputs.reshape(B, T, -1) @ W_o
