"""`multi_head_attention` and `block` alone, for two variants in one file.

Everything is decided from the config and from which parameters are present; there is
no model. Cross-attention and left padding included.
"""

import numpy as np

framework = "numpy"
dtype = ["float32", "float64"]
variant = ["gpt2", "llama"]


def turn(x, positions, theta):
    """RoPE, half layout: the two halves as a vector rotated in the plane."""
    d_head = x.shape[-1]
    x = x.reshape(*x.shape[:-1], 2, d_head // 2)
    angle = positions[:, None, :, None] * theta ** (-np.arange(0, d_head, 2) / d_head)
    cos, sin = np.cos(angle), np.sin(angle)
    rotation = np.stack([np.stack([cos, -sin], -2), np.stack([sin, cos], -2)], -3)
    # rotation [B or 1, 1, T, 2, 2, Dh/2] acts on the axis of size 2.
    return np.einsum("...rcd,...cd->...rd", rotation, x).reshape(*x.shape[:-2], d_head).astype(x.dtype)


def multi_head_attention(x, params, config, context=None, attention_mask=None, positions=None, tap=None):
    tap = tap or (lambda name, tensor: None)
    read = x if context is None else context
    tq, tk = x.shape[1], read.shape[1]

    def project(source, letter, n_heads):
        out = source @ params["w_" + letter]
        if "b_" + letter in params:
            out = out + params["b_" + letter]
        return out.reshape(len(out), out.shape[1], n_heads, -1).swapaxes(1, 2)

    q = project(x, "q", config.n_heads)
    k = project(read, "k", config.n_kv_heads)
    v = project(read, "v", config.n_kv_heads)
    tap("q", q)
    tap("k", k)
    tap("v", v)

    visible = np.ones((1, 1, tq, tk), dtype=bool)
    if context is None:
        if attention_mask is not None:
            visible = visible & attention_mask[:, None, None]
        if config.position == "rope":
            if positions is None and attention_mask is None:
                positions = np.arange(tq)
            elif positions is None:
                positions = np.maximum(np.cumsum(attention_mask, 1) - 1, 0)
            positions = np.atleast_2d(positions)
            q = turn(q, positions, config.rope_theta)
            k = turn(k, positions, config.rope_theta)
            tap("q_rot", q)
            tap("k_rot", k)
        if config.causal:
            visible = visible & np.tri(tq, dtype=bool)

    n_groups = config.n_heads // config.n_kv_heads
    k, v = np.kron(k, np.ones((1, n_groups, 1, 1), k.dtype)), v.repeat(n_groups, 1)
    scores = q @ k.transpose(0, 1, 3, 2) / config.d_head**0.5
    tap("scores", scores)
    # Scores at hidden keys are lowered to the row's minimum, then weigh nothing.
    shifted = scores - np.where(visible, scores, -1e30).max(-1, keepdims=True)
    exponentials = np.exp(np.where(visible, shifted, 0)) * visible
    weights = exponentials / np.maximum(exponentials.sum(-1, keepdims=True), 1e-37)
    tap("weights", weights)
    z = weights @ v
    tap("z", z)
    attn_out = z.swapaxes(1, 2).reshape(len(x), tq, -1) @ params["w_o"]
    if "b_o" in params:
        attn_out = attn_out + params["b_o"]
    tap("attn_out", attn_out)
    return attn_out


def norm(x, params, name, config):
    if config.norm == "layer_norm":
        x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x * x).mean(-1, keepdims=True) + config.norm_eps)
    return x * params[name + ".weight"] + params.get(name + ".bias", 0)


def feed_forward(x, params):
    if "ffn.w_gate" in params:
        gate = x @ params["ffn.w_gate"]
        small = np.exp(-np.abs(gate))
        sigmoid = np.where(gate > 0, 1, small) / (1 + small)
        return (gate * sigmoid * (x @ params["ffn.w_up"])) @ params["ffn.w_down"]
    x = x @ params["ffn.w_1"] + params["ffn.b_1"]
    x = x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2
    return x.astype(params["ffn.w_2"].dtype) @ params["ffn.w_2"] + params["ffn.b_2"]


def block(x, params, config, attention_mask=None, positions=None, tap=None):
    tap = tap or (lambda name, tensor: None)
    tap("x", x)
    norm1 = norm(x, params, "norm1", config)
    tap("norm1", norm1)
    inner = {
        name[len("attention.") :]: value for name, value in params.items() if name.startswith("attention.")
    }
    u = x + multi_head_attention(
        norm1,
        inner,
        config,
        attention_mask=attention_mask,
        positions=positions,
        tap=tap,
    )
    tap("u", u)
    norm2 = norm(u, params, "norm2", config)
    tap("norm2", norm2)
    y = u + feed_forward(norm2, params)
    tap("y", y)
    return y
