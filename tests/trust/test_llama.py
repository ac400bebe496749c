"""Llama, Mistral, Qwen2, Qwen3 and Gemma of `transformers`, with tiny random weights, in float64 all through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from torch import nn
from transformers import (
    GemmaConfig,
    GemmaForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from trust import huggingface, mapping
from trust.mapping import TOLERANCE, Config, Subject, choices, distance, randomised
from trust.sequences import Sequences, compositions, left_padding, logits, random_tokens

BATCH, LENGTH = 3, 5
TOKENS = random_tokens(11, BATCH, LENGTH, seed=2)
MASK = left_padding([0, 2, 4], LENGTH)
FROM_FIRST_TOKEN = np.maximum(MASK.cumsum(axis=1) - 1, 0)
SCHEDULES = [(), *compositions(LENGTH)]


@dataclass(frozen=True)
class Kind:
    """A model of `transformers`: its class, what its config has besides sizes, and the choices that this means."""

    model: type[nn.Module]
    config: type[Any]
    extras: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    kv_heads: int = 2
    theta: float = 10000.0
    eps: float = 1e-5


LLAMA = Kind(LlamaForCausalLM, LlamaConfig)
QWEN2 = Kind(Qwen2ForCausalLM, Qwen2Config, changes={"bias": "qkv"}, theta=1e6, eps=1e-6)
MISTRAL = Kind(MistralForCausalLM, MistralConfig, extras={"sliding_window": None})
QWEN3 = Kind(
    Qwen3ForCausalLM,
    Qwen3Config,
    extras={"head_dim": 10},
    changes={"qk_norm": "head", "wide_heads": True},
    theta=1e6,
    eps=1e-6,
)
GEMMA = Kind(
    GemmaForCausalLM,
    GemmaConfig,
    extras={"head_dim": 10, "tie_word_embeddings": True},
    changes={"ffn": "geglu_tanh", "embed_scale": "sqrt(D)", "tie_embeddings": True, "wide_heads": True},
    eps=1e-6,
)
KINDS = {
    "llama": LLAMA,
    "llama, every head its own keys": replace(LLAMA, kv_heads=4),
    "llama, one key head": replace(LLAMA, kv_heads=1),
    "llama, tied": replace(LLAMA, extras={"tie_word_embeddings": True}, changes={"tie_embeddings": True}),
    "llama, biases": replace(LLAMA, extras={"attention_bias": True}, changes={"bias": "all"}),
    "llama, wide heads": replace(LLAMA, extras={"head_dim": 10}),
    "llama, other theta and eps": replace(LLAMA, theta=700.0, eps=1e-2),
    "qwen2": QWEN2,
    "qwen2, one key head": replace(QWEN2, kv_heads=1),
    "mistral": MISTRAL,
    "mistral, window": replace(MISTRAL, extras={"sliding_window": 3}, changes={"window": 3}),
    "mistral, window of one": replace(MISTRAL, extras={"sliding_window": 1}, changes={"window": 1}),
    "qwen3": QWEN3,
    "qwen3, every head its own keys": replace(QWEN3, kv_heads=4),
    "qwen3, biases": replace(
        QWEN3, extras={**QWEN3.extras, "attention_bias": True}, changes={**QWEN3.changes, "bias": "all"}
    ),
    "gemma": GEMMA,
}


@cache
def pair(name: str, *, lifted: bool = True) -> tuple[nn.Module, Subject]:
    """The model of `transformers`, and the program with its parameters."""
    kind = KINDS[name]
    model = randomised(
        kind.model(
            kind.config(
                vocab_size=11,
                hidden_size=24,
                intermediate_size=20,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=kind.kv_heads,
                max_position_embeddings=4096,
                rms_norm_eps=kind.eps,
                rope_theta=kind.theta,
                bos_token_id=0,
                eos_token_id=0,
                attn_implementation="sdpa",
                **kind.extras,
            )
        ),
        seed=1,
    )
    if lifted:
        huggingface.lift(model, kind.theta)
    width = kind.extras.get("head_dim", 6)
    subject = Subject(
        choices("llama", rope_theta=kind.theta, norm_eps=kind.eps, **kind.changes),
        Config(n_kv_heads=kind.kv_heads, d_head=width, d_value=width, d_rotary=width),
        mapping.llama(model),
    )
    return model, subject


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", KINDS)
def test_llama(name: str, schedule: tuple[int, ...]) -> None:
    model, subject = pair(name)
    sequences = Sequences(TOKENS)
    assert (
        distance(logits(subject, sequences, schedule), huggingface.logits(model, sequences, schedule))
        <= TOLERANCE
    )


@pytest.mark.parametrize("name", KINDS)
def test_without_the_lift_only_float32_agrees(name: str) -> None:
    """What the helper is there for: norms and angles in float32 cost nine digits, and no more than that."""
    model, subject = pair(name, lifted=False)
    sequences = Sequences(TOKENS)
    assert 1e-9 < distance(logits(subject, sequences), huggingface.logits(model, sequences)) < 1e-5


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", ["llama", "qwen2", "mistral, window", "qwen3", "gemma"])
def test_llama_with_padding(name: str, schedule: tuple[int, ...]) -> None:
    """Rotations are relative, so `transformers` needs no positions for padding, and the program's own change nothing."""
    model, subject = pair(name)
    untold = huggingface.logits(model, Sequences(TOKENS, MASK), schedule)[MASK]
    told = huggingface.logits(model, Sequences(TOKENS, MASK, FROM_FIRST_TOKEN), schedule)[MASK]
    for expected in (untold, told):
        assert distance(logits(subject, Sequences(TOKENS, MASK), schedule)[MASK], expected) <= TOLERANCE
    assert (
        distance(logits(subject, Sequences(TOKENS, MASK, FROM_FIRST_TOKEN), schedule)[MASK], told)
        <= TOLERANCE
    )


@pytest.mark.parametrize(
    "positions",
    [np.array([3, 4, 9, 31, 2100]), np.array([[0, 1, 2, 3, 4], [5, 7, 11, 13, 17], [2049, 2, 900, 4000, 1]])],
    ids=["one row", "per sequence"],
)
@pytest.mark.parametrize("schedule", [(), (1, 3, 1)], ids=str)
@pytest.mark.parametrize("name", ["llama", "qwen2", "mistral, window", "qwen3", "gemma"])
def test_llama_at_given_positions(name: str, schedule: tuple[int, ...], positions: np.ndarray) -> None:
    model, subject = pair(name)
    # The mask says that these are single sequences: `transformers` takes a jump for the start of another one.
    sequences = Sequences(TOKENS, np.ones_like(TOKENS, dtype=bool), positions)
    assert (
        distance(logits(subject, sequences, schedule), huggingface.logits(model, sequences, schedule))
        <= TOLERANCE
    )


@pytest.mark.parametrize("name", ["llama", "qwen2", "mistral, window", "qwen3", "gemma"])
def test_llama_past_a_hundred_tokens(name: str) -> None:
    model, subject = pair(name)
    sequences = Sequences(random_tokens(11, 2, 130, seed=3))
    expected = huggingface.logits(model, sequences)
    assert distance(logits(subject, sequences), expected) <= TOLERANCE
    assert distance(logits(subject, sequences, (100, 1, 29)), expected) <= TOLERANCE
