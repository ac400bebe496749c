"""A GPT that exports well, and others that an exporter cannot take, or takes and gets wrong, each for one reason."""

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.ln_1(x)).chunk(3, -1)
        )
        x = x + self.proj(self.attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.ln_2(x))))

    def attention(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class GPT(nn.Module):
    block = Block

    def __init__(self, vocab_size, n_embd, n_head, n_layer, block_size, hidden):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.blocks = nn.ModuleList(self.block(n_embd, n_head, hidden) for _ in range(n_layer))
        self.ln_f, self.head = nn.LayerNorm(n_embd), nn.Linear(n_embd, vocab_size, bias=False)

    def forward(self, idx):
        x = self.tokens(idx) + self.places(torch.arange(idx.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


class Branches(GPT):
    """Asks the data which way to go."""

    def forward(self, idx):
        return super().forward(idx) if idx.sum() > -1 else super().forward(0 * idx)


class Unsupported(GPT):
    """An operation that ONNX does not have."""

    def forward(self, idx):
        logits = super().forward(idx)
        return logits + 0 * torch.linalg.eigvals(logits @ logits.transpose(1, 2)).real.unsqueeze(-1)


class FixedBlock(Block):
    def __init__(self, width, heads, hidden):
        super().__init__(width, heads, hidden)
        self.register_buffer("mask", torch.ones(6, 6, dtype=torch.bool).tril())

    def attention(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)


class FixedMask(GPT):
    """A mask of one length, whatever comes in."""

    block = FixedBlock


class PythonLength(GPT):
    """Takes the length to be a number of Python, which an export keeps as it was that day."""

    def forward(self, idx):
        length = int(idx.shape[1])
        places = self.places(torch.tensor(list(range(length))))
        x = self.tokens(idx) + places
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


class OtherwiseExported(GPT):
    """Does something else while it is exported, as libraries do to please an exporter."""

    def forward(self, idx):
        return super().forward(idx) * (1.5 if torch.compiler.is_exporting() else 1.0)


class Clashes(GPT):
    """Buffers that are called like inputs and outputs."""

    def __init__(self, *args, **given):
        super().__init__(*args, **given)
        self.register_buffer("input_ids", torch.ones(1))
        self.register_buffer("logits", torch.ones(1))

    def forward(self, idx):
        return super().forward(idx) * self.input_ids * self.logits
