"""Calling the language models of `transformers`, and lifting those into float64 that are not wholly in it."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import DynamicCache

from conformance.language.arithmetic import Array
from trust.sequences import Sequences, spans


def logits(model: nn.Module, sequences: Sequences, schedule: Sequence[int] = ()) -> Array:
    """The logits that a causal language model gives for all tokens, as `trust.sequences.logits` does."""
    # Its name changed within version 5.
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    memory = {name: DynamicCache(), "use_cache": True} if schedule else {"use_cache": False}
    chunks = []
    for span in spans(schedule or [sequences.length]):
        part = sequences.between(*span)
        arguments: dict[str, Any] = {"input_ids": torch.tensor(part.tokens)}
        if part.attention_mask is not None:
            arguments["attention_mask"] = torch.tensor(part.attention_mask).long()
        if part.positions is not None:
            arguments["position_ids"] = torch.tensor(
                np.broadcast_to(part.positions, part.tokens.shape).copy()
            )
        with torch.no_grad():
            chunks.append(model(**arguments, **memory).logits.numpy())
    return np.concatenate(chunks, axis=1)


def lift(model: nn.Module, theta: float) -> None:
    """Makes RMSNorm (where there is one), the angles of RoPE and Gemma's √D compute in float64, as the rest of the model does.

    `transformers` runs both in float32 whatever the dtype of the model. What is done with the angles stays its own:
    the pairs, the turn, the heads.
    """
    lifted = set()
    for module in model.modules():
        for kind, forward in (("RMSNorm", _norm), ("RotaryEmbedding", _angles)):
            if type(module).__name__.endswith(kind):
                module.forward = MethodType(forward, module)
                module.theta = theta
                lifted.add(kind)
        if type(module).__name__ == "GemmaTextScaledWordEmbedding":
            module.embed_scale = torch.tensor(module.embedding_dim, dtype=torch.float64).sqrt()
    assert "RotaryEmbedding" in lifted


def _norm(self: nn.Module, x: Tensor) -> Tensor:
    if type(self).__name__.startswith("Gemma"):
        return functional.rms_norm(x, self.weight.shape, 1 + self.weight, self.eps)
    return functional.rms_norm(x, self.weight.shape, self.weight, self.variance_epsilon)


def _angles(self: nn.Module, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
    width = 2 * self.inv_freq.numel()
    frequency = self.theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = position_ids[..., None].double() * frequency
    both = torch.cat((angle, angle), dim=-1)
    return both.cos(), both.sin()
