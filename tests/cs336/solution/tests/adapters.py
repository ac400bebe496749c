"""The functions that CS336's tests call, each by the module that is graded."""

from __future__ import annotations

from cs336_basics import model
from torch import Tensor

from .common import filled


def run_linear(d_in: int, d_out: int, weights: Tensor, in_features: Tensor) -> Tensor:
    return filled(model.Linear(d_in, d_out), {"weight": weights})(in_features)


def run_embedding(vocab_size: int, d_model: int, weights: Tensor, token_ids: Tensor) -> Tensor:
    return filled(model.Embedding(vocab_size, d_model), {"weight": weights})(token_ids)


def run_swiglu(
    d_model: int, d_ff: int, w1_weight: Tensor, w2_weight: Tensor, w3_weight: Tensor, in_features: Tensor
) -> Tensor:
    swiglu = model.SwiGLU(d_model, d_ff)
    swiglu.w1.weight.data = w1_weight
    swiglu.w2.weight.data = w2_weight
    swiglu.w3.weight.data = w3_weight
    return swiglu(in_features)


def run_scaled_dot_product_attention(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
    return model.attend(Q, K, V, mask)


def attention_of(d_model, num_heads, rope, q, k, v, o):
    weights = {"q_proj.weight": q, "k_proj.weight": k, "v_proj.weight": v, "output_proj.weight": o}
    return filled(model.SelfAttention(d_model, num_heads, rope), weights)


def run_multihead_self_attention(
    d_model: int,
    num_heads: int,
    q_proj_weight: Tensor,
    k_proj_weight: Tensor,
    v_proj_weight: Tensor,
    o_proj_weight: Tensor,
    in_features: Tensor,
) -> Tensor:
    attention = attention_of(
        d_model, num_heads, None, q_proj_weight, k_proj_weight, v_proj_weight, o_proj_weight
    )
    return attention(in_features)


def run_multihead_self_attention_with_rope(
    d_model: int,
    num_heads: int,
    max_seq_len: int,
    theta: float,
    q_proj_weight: Tensor,
    k_proj_weight: Tensor,
    v_proj_weight: Tensor,
    o_proj_weight: Tensor,
    in_features: Tensor,
    token_positions: Tensor | None = None,
) -> Tensor:
    rope = model.Rope(theta, d_model // num_heads, max_seq_len)
    attention = attention_of(
        d_model, num_heads, rope, q_proj_weight, k_proj_weight, v_proj_weight, o_proj_weight
    )
    return attention(in_features, token_positions)


def run_rope(
    d_k: int, theta: float, max_seq_len: int, in_query_or_key: Tensor, token_positions: Tensor
) -> Tensor:
    return model.Rope(theta, d_k, max_seq_len)(in_query_or_key, token_positions)


def run_transformer_block(
    d_model: int,
    num_heads: int,
    d_ff: int,
    max_seq_len: int,
    theta: float,
    weights: dict[str, Tensor],
    in_features: Tensor,
) -> Tensor:
    rope = model.Rope(theta, d_model // num_heads, max_seq_len)
    return filled(model.Block(d_model, num_heads, d_ff, rope), weights)(in_features)


def run_transformer_lm(
    vocab_size: int,
    context_length: int,
    d_model: int,
    num_layers: int,
    num_heads: int,
    d_ff: int,
    rope_theta: float,
    weights: dict[str, Tensor],
    in_indices: Tensor,
) -> Tensor:
    lm = model.TransformerLM(vocab_size, context_length, d_model, num_layers, num_heads, d_ff, rope_theta)
    return filled(lm, weights)(in_indices)


def run_rmsnorm(d_model: int, eps: float, weights: Tensor, in_features: Tensor) -> Tensor:
    return filled(model.RMSNorm(d_model, eps), {"weight": weights})(in_features)


def run_silu(in_features: Tensor) -> Tensor:
    return model.silu(in_features)


def run_softmax(in_features: Tensor, dim: int) -> Tensor:
    return model.softmax(in_features, dim)


def run_get_batch(dataset, batch_size, context_length, device):
    raise NotImplementedError
