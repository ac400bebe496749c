"""GPT-NeoX of `transformers`, with tiny random weights, in float64 all through."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from torch import nn
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

from trust import huggingface, mapping
from trust.mapping import TOLERANCE, Config, Subject, choices, distance, randomised
from trust.sequences import Sequences, compositions, left_padding, logits, random_tokens

BATCH, LENGTH = 3, 5
TOKENS = random_tokens(11, BATCH, LENGTH, seed=2)
MASK = left_padding([0, 2, 4], LENGTH)
SCHEDULES = [(), *compositions(LENGTH)]
KINDS = {"parallel": (True, 0.25), "sequential": (False, 0.25), "half": (True, 0.5), "whole": (True, 1.0)}


@cache
def pair(name: str, *, lifted: bool = True) -> tuple[nn.Module, Subject]:
    """The model of `transformers`, and the program with its parameters."""
    parallel, fraction = KINDS[name]
    model = randomised(
        GPTNeoXForCausalLM(
            GPTNeoXConfig(
                vocab_size=11,
                hidden_size=64,
                intermediate_size=20,
                num_hidden_layers=2,
                num_attention_heads=4,
                max_position_embeddings=4096,
                use_parallel_residual=parallel,
                rope_parameters={
                    "rope_type": "default",
                    "rope_theta": 700.0,
                    "partial_rotary_factor": fraction,
                },
                bos_token_id=0,
                eos_token_id=0,
                attn_implementation="sdpa",
            )
        ),
        seed=1,
    )
    if lifted:
        huggingface.lift(model, 700.0)
    variant = choices(
        "gpt2",
        position="rope",
        rope_theta=700.0,
        rotary_fraction=fraction,
        ffn="gelu",
        block_form="parallel" if parallel else "sequential",
        tie_embeddings=False,
    )
    config = Config(d_model=64, d_head=16, d_value=16, d_rotary=int(16 * fraction))
    return model, Subject(variant, config, mapping.gpt_neox(model))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", KINDS)
def test_gpt_neox(name: str, schedule: tuple[int, ...]) -> None:
    model, subject = pair(name)
    sequences = Sequences(TOKENS)
    expected = huggingface.logits(model, sequences, schedule)
    assert distance(logits(subject, sequences, schedule), expected) <= TOLERANCE


def test_without_the_lift_only_float32_agrees() -> None:
    model, subject = pair("parallel", lifted=False)
    sequences = Sequences(TOKENS)
    assert 1e-10 < distance(logits(subject, sequences), huggingface.logits(model, sequences)) < 1e-5


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_gpt_neox_with_padding(schedule: tuple[int, ...]) -> None:
    model, subject = pair("parallel")
    expected = huggingface.logits(model, Sequences(TOKENS, MASK), schedule)[MASK]
    assert distance(logits(subject, Sequences(TOKENS, MASK), schedule)[MASK], expected) <= TOLERANCE


def test_gpt_neox_at_given_positions() -> None:
    model, subject = pair("parallel")
    positions = np.array([[0, 1, 2, 3, 4], [5, 7, 11, 13, 17], [2049, 2, 900, 4000, 1]])
    sequences = Sequences(TOKENS, np.ones_like(TOKENS, dtype=bool), positions)
    expected = huggingface.logits(model, sequences)
    assert distance(logits(subject, sequences), expected) <= TOLERANCE


def test_the_choices_are_seen() -> None:
    """The comparisons above tell the forms apart."""
    _, subject = pair("parallel")
    given = Sequences(TOKENS)
    sequential = Subject({**subject.choices, "block_form": "sequential"}, subject.config, subject.parameters)
    whole = Subject(
        {**subject.choices, "rotary_fraction": 1},
        Config(d_model=64, d_head=16, d_value=16, d_rotary=16),
        subject.parameters,
    )
    for other in (sequential, whole):
        assert distance(logits(other, given), logits(subject, given)) > 1e-3
