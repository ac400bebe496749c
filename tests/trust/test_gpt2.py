"""GPT-2 of `transformers`, with tiny random weights, in float64."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from transformers import GPT2Config, GPT2LMHeadModel

from trust import huggingface, mapping
from trust.mapping import TOLERANCE, Config, Subject, choices, distance, randomised
from trust.sequences import Sequences, compositions, left_padding, logits, random_tokens

BATCH, LENGTH = 3, 5
TOKENS = random_tokens(11, BATCH, LENGTH, seed=2)
MASK = left_padding([0, 2, 4], LENGTH)
SCHEDULES = [(), *compositions(LENGTH)]
FROM_FIRST_TOKEN = np.maximum(MASK.cumsum(axis=1) - 1, 0)


@cache
def pair(attention: str) -> tuple[GPT2LMHeadModel, Subject]:
    """The model of `transformers`, and the program with its parameters."""
    model = randomised(
        GPT2LMHeadModel(
            GPT2Config(
                vocab_size=11,
                n_positions=32,
                n_embd=24,
                n_layer=2,
                n_head=4,
                n_inner=20,
                bos_token_id=0,
                eos_token_id=0,
                attn_implementation=attention,
            )
        ),
        seed=1,
    )
    return model, Subject(choices("gpt2"), Config(), mapping.gpt2(model))


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_gpt2(schedule: tuple[int, ...], attention: str) -> None:
    model, subject = pair(attention)
    sequences = Sequences(TOKENS)
    assert (
        distance(logits(subject, sequences, schedule), huggingface.logits(model, sequences, schedule))
        <= TOLERANCE
    )


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_gpt2_with_padding(schedule: tuple[int, ...]) -> None:
    """Positions start at the first real token; `transformers` has to be told them, the program knows."""
    model, subject = pair("sdpa")
    told = huggingface.logits(model, Sequences(TOKENS, MASK, FROM_FIRST_TOKEN), schedule)[MASK]
    assert (
        distance(logits(subject, Sequences(TOKENS, MASK, FROM_FIRST_TOKEN), schedule)[MASK], told)
        <= TOLERANCE
    )
    assert distance(logits(subject, Sequences(TOKENS, MASK), schedule)[MASK], told) <= TOLERANCE


@pytest.mark.parametrize(
    "positions",
    [np.array([3, 4, 9, 31, 0]), np.arange(BATCH * LENGTH).reshape(BATCH, LENGTH)],
    ids=["one row", "per sequence"],
)
@pytest.mark.parametrize("schedule", [(), (2, 3)], ids=str)
def test_gpt2_at_given_positions(positions: np.ndarray, schedule: tuple[int, ...]) -> None:
    model, subject = pair("sdpa")
    # The mask says that these are single sequences: `transformers` takes a jump for the start of another one.
    sequences = Sequences(TOKENS, np.ones_like(TOKENS, dtype=bool), positions)
    assert (
        distance(logits(subject, sequences, schedule), huggingface.logits(model, sequences, schedule))
        <= TOLERANCE
    )
