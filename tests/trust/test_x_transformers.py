"""`x_transformers.Decoder` as it is by default, and with what its arguments switch on, in float64.

Its softmax is in float32 whatever the dtype, unless it leaves attention to PyTorch (`attn_flash`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from conformance.language.arithmetic import Array
from trust import mapping
from trust.mapping import TOLERANCE, Config, Subject, choices, distance, randomised
from trust.sequences import Sequences, left_padding, logits, random_tokens

x_transformers = pytest.importorskip("x_transformers")

BATCH, LENGTH = 3, 5
TOKENS = random_tokens(11, BATCH, LENGTH, seed=2)
PLAIN = {"norm_bias": False, "ffn": "gelu", "bias": "ffn"}
ROTARY = {"position": "rope", "rope_layout": "interleaved", "rotary_fraction": 0.5}
KINDS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any], Config]] = {
    "default": ({}, {"position": "learned"}, Config(d_head=10, d_value=10)),
    "no positions": ({"use_abs_pos_emb": False}, {}, Config()),
    "rotary": ({"rotary_pos_emb": True}, ROTARY, Config(d_head=12, d_value=12)),
    "rotary, whole": (
        {"rotary_pos_emb": True, "rotary_emb_dim": 6},
        {**ROTARY, "rotary_fraction": 1},
        Config(),
    ),
    "no bias": ({"ff_no_bias": True}, {"position": "learned", "bias": "none"}, Config()),
}


@cache
def pair(name: str, *, flash: bool = True) -> tuple[nn.Module, Subject]:
    """The wrapped decoder, and the program with its parameters."""
    extras, changes, config = KINDS[name]
    around = {"use_abs_pos_emb": extras["use_abs_pos_emb"]} if "use_abs_pos_emb" in extras else {}
    model = randomised(
        x_transformers.TransformerWrapper(
            num_tokens=11,
            max_seq_len=config.max_positions,
            attn_layers=x_transformers.Decoder(
                dim=config.d_model,
                depth=config.n_layers,
                heads=config.n_heads,
                attn_dim_head=config.d_head,
                attn_flash=flash,
                ff_mult=config.d_ff / config.d_model,
                verbose=False,
                **{key: value for key, value in extras.items() if key not in around},
            ),
            **around,
        ),
        seed=1,
    )
    rotary = model.attn_layers.rotary_pos_emb
    if rotary is not None:
        # Made in float32 before the module went to float64.
        width = 2 * len(rotary.inv_freq)
        rotary.inv_freq = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return model, Subject(choices("minimal", **{**PLAIN, **changes}), config, mapping.x_transformer(model))


def called(model: nn.Module, tokens: Array, **more: Any) -> Array:
    """What the module makes of all tokens at once."""
    with torch.no_grad():
        return model(torch.tensor(tokens), **more).numpy()


@pytest.mark.parametrize("name", KINDS)
def test_decoder(name: str) -> None:
    model, subject = pair(name)
    assert distance(logits(subject, Sequences(TOKENS)), called(model, TOKENS)) <= TOLERANCE


@pytest.mark.parametrize("name", KINDS)
def test_decoder_with_softmax_in_float32(name: str) -> None:
    model, subject = pair(name, flash=False)
    assert 1e-9 < distance(logits(subject, Sequences(TOKENS)), called(model, TOKENS)) < 1e-6


@pytest.mark.parametrize("schedule", [(2, 1, 2), (1, 1, 1, 1, 1)], ids=str)
def test_decoder_in_chunks(schedule: tuple[int, ...]) -> None:
    model, subject = pair("rotary")
    assert distance(logits(subject, Sequences(TOKENS), schedule), called(model, TOKENS)) <= TOLERANCE


def test_decoder_with_padding() -> None:
    """Its rotations are relative, and a mask is all that it needs to be told."""
    model, subject = pair("rotary")
    mask = left_padding([0, 2, 4], LENGTH)
    expected = called(model, TOKENS, mask=torch.tensor(mask))[mask]
    assert distance(logits(subject, Sequences(TOKENS, mask))[mask], expected) <= TOLERANCE


def test_the_fraction_is_seen() -> None:
    model, subject = pair("rotary")
    whole = Subject(
        {**subject.choices, "rotary_fraction": 1},
        Config(d_head=12, d_value=12, d_rotary=12),
        subject.parameters,
    )
    assert np.isfinite(called(model, TOKENS)).all()
    assert distance(logits(whole, Sequences(TOKENS)), called(model, TOKENS)) > 1e-3
