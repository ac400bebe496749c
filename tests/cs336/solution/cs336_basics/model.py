"""A decoder as CS336's first assignment asks for it, with modules whose names are those of its state dict."""

import math

import torch
from torch import Tensor, nn


class Linear(nn.Module):
    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_out, d_in))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T


class Embedding(nn.Module):
    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))

    def forward(self, token_ids: Tensor) -> Tensor:
        return self.weight[token_ids]


class RMSNorm(nn.Module):
    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        normed = x * torch.rsqrt(mean_square + self.eps)
        return normed * self.weight


def softmax(x: Tensor, dim: int) -> Tensor:
    shifted = x - x.amax(dim=dim, keepdim=True)
    exponentials = shifted.exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def silu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


class SwiGLU(nn.Module):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.w1 = Linear(d_model, d_ff)
        self.w2 = Linear(d_ff, d_model)
        self.w3 = Linear(d_model, d_ff)

    def forward(self, x: Tensor) -> Tensor:
        gated = silu(self.w1(x)) * self.w3(x)
        return self.w2(gated)


class Rope(nn.Module):
    """Turns the features 2i and 2i + 1 by the position times theta^(-2i/d_k)."""

    def __init__(self, theta: float, d_k: int, max_seq_len: int) -> None:
        super().__init__()
        frequencies = theta ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)
        angles = torch.arange(max_seq_len, dtype=torch.float64)[:, None] * frequencies
        self.register_buffer("cos", angles.cos().float(), persistent=False)
        self.register_buffer("sin", angles.sin().float(), persistent=False)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        cos, sin = self.cos[positions], self.sin[positions]
        even, odd = x[..., 0::2], x[..., 1::2]
        pairs = (even * cos - odd * sin, even * sin + odd * cos)
        return torch.stack(pairs, dim=-1).flatten(-2)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = softmax(scores, dim=-1)
    return weights @ v


class SelfAttention(nn.Module):
    def __init__(self, d_model: int, num_heads: int, rope: Rope | None = None) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.rope = rope
        self.q_proj = Linear(d_model, d_model)
        self.k_proj = Linear(d_model, d_model)
        self.v_proj = Linear(d_model, d_model)
        self.output_proj = Linear(d_model, d_model)

    def heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        length = x.shape[-2]
        q, k, v = (self.heads(project(x)) for project in (self.q_proj, self.k_proj, self.v_proj))
        if self.rope is not None:
            positions = torch.arange(length) if positions is None else positions[..., None, :]
            q = self.rope(q, positions)
            k = self.rope(k, positions)
        causal = torch.ones(length, length, dtype=torch.bool).tril()
        z = attend(q, k, v, causal)
        concat = z.transpose(-3, -2).flatten(-2)
        return self.output_proj(concat)


class Block(nn.Module):
    def __init__(self, d_model: int, num_heads: int, d_ff: int, rope: Rope) -> None:
        super().__init__()
        self.ln1 = RMSNorm(d_model)
        self.attn = SelfAttention(d_model, num_heads, rope)
        self.ln2 = RMSNorm(d_model)
        self.ffn = SwiGLU(d_model, d_ff)

    def forward(self, x: Tensor) -> Tensor:
        attended = self.attn(self.ln1(x))
        x = x + attended
        fed = self.ffn(self.ln2(x))
        return x + fed


class TransformerLM(nn.Module):
    def __init__(
        self,
        vocab_size: int,
        context_length: int,
        d_model: int,
        num_layers: int,
        num_heads: int,
        d_ff: int,
        rope_theta: float,
    ) -> None:
        super().__init__()
        rope = Rope(rope_theta, d_model // num_heads, context_length)
        self.token_embeddings = Embedding(vocab_size, d_model)
        self.layers = nn.ModuleList(Block(d_model, num_heads, d_ff, rope) for _ in range(num_layers))
        self.ln_final = RMSNorm(d_model)
        self.lm_head = Linear(d_model, vocab_size)

    def forward(self, token_ids: Tensor) -> Tensor:
        x = self.token_embeddings(token_ids)
        for layer in self.layers:
            x = layer(x)
        final = self.ln_final(x)
        return self.lm_head(final)
