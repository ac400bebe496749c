"""A cache changes nothing: a sequence in chunks of every size against the same sequence at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from conformance.language.arithmetic import Array
from trust.mapping import Config, Subject, choices, distance, pack
from trust.sequences import Sequences, compositions, left_padding, logits, random_tokens, spans, step

BATCH, LENGTH, SOURCE = 3, 5, 7
TOLERANCE = 1e-13
MASK = left_padding([0, 2, 4], LENGTH)

every_variant = pytest.mark.parametrize("variant", pack().variants)
every_schedule = pytest.mark.parametrize("schedule", compositions(LENGTH), ids=str)


# -- subjects -----------------------------------------------------------------------------------------------------


def parameter_shapes(variant: str, config: Config) -> dict[str, tuple[int, ...]]:
    """Every parameter of a variant, as an adapter is handed them."""
    c, v = config, choices(variant)
    model, ff = c.d_model, c.d_ff
    q, o = c.n_heads * c.d_head, c.n_heads * c.d_value
    k, kv = c.n_kv_heads * c.d_head, c.n_kv_heads * c.d_value
    norm = {"weight": (model,), "bias": (model,)}
    heads = {"w_q": (model, q), "w_k": (model, k), "w_v": (model, kv), "w_o": (o, model)}
    biases = {"b_q": (q,), "b_k": (k,), "b_v": (kv,), "b_o": (model,)}
    ffn = {"w_1": (model, ff), "b_1": (ff,), "w_2": (ff, model), "b_2": (model,)}
    if not v["norm_bias"]:
        del norm["bias"]
    if v["bias"] == "all":
        heads |= biases
    else:
        del ffn["b_1"], ffn["b_2"]
    if v["ffn"] == "swiglu":
        ffn = {"w_gate": (model, ff), "w_up": (model, ff), "w_down": (ff, model)}

    layer = {"norm1": norm, "attention": heads, "norm2": norm, "ffn": ffn}
    stacks = {"layers": layer}
    if v["structure"] == "encoder_decoder":
        stacks = {
            "encoder.layers": layer,
            "decoder.layers": {**layer, "cross_attention": heads, "norm3": norm},
        }

    shapes = {"embed": (c.vocab_size, model)}
    if v["position"] == "learned":
        shapes["position_embed"] = (c.max_positions, model)
    for stack, parts in stacks.items():
        for i in range(c.n_layers):
            for part, own in parts.items():
                shapes |= {f"{stack}.{i}.{part}.{name}": shape for name, shape in own.items()}
    if v["final_norm"]:
        shapes |= {f"final_norm.{name}": shape for name, shape in norm.items()}
    if not v["tie_embeddings"]:
        shapes["lm_head"] = (model, c.vocab_size)
    return shapes


def drawn(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Parameters of these shapes: no gain is 1, no bias 0, nothing is zero."""
    random = np.random.default_rng(1)
    found = {
        name: random.choice([-1.0, 1.0], shape) * random.uniform(0.1, 0.4, shape)
        for name, shape in shapes.items()
    }
    return {name: value + 0.5 * np.sign(value) * name.endswith(".weight") for name, value in found.items()}


@cache
def subject(variant: str) -> Subject:
    config = Config(n_kv_heads=2 if choices(variant)["grouped_heads"] else 4)
    return Subject(choices(variant), config, drawn(parameter_shapes(variant, config)))


def sequences(variant: str, seed: int = 2) -> Sequences:
    source = random_tokens(11, BATCH, SOURCE, seed + 100)
    tokens = random_tokens(11, BATCH, LENGTH, seed)
    return Sequences(tokens, source=source if choices(variant)["structure"] == "encoder_decoder" else None)


# -- tests --------------------------------------------------------------------------------------------------------


def test_there_are_sixteen_ways_to_cut_five_tokens() -> None:
    assert len(set(compositions(LENGTH))) == 16
    assert all(sum(schedule) == LENGTH for schedule in compositions(LENGTH))


@every_schedule
@every_variant
def test_chunks(variant: str, schedule: tuple[int, ...]) -> None:
    given = sequences(variant)
    at_once = logits(subject(variant), given)
    assert distance(logits(subject(variant), given, schedule), at_once) <= TOLERANCE


@every_schedule
@every_variant
def test_chunks_with_padding(variant: str, schedule: tuple[int, ...]) -> None:
    """The last sequence is one token long, so whole chunks of it are padding."""
    given = replace(sequences(variant), attention_mask=MASK)
    at_once = logits(subject(variant), given)
    assert distance(logits(subject(variant), given, schedule), at_once) <= TOLERANCE


@every_schedule
@every_variant
def test_chunks_at_given_positions(variant: str, schedule: tuple[int, ...]) -> None:
    given = replace(
        sequences(variant), positions=np.array([[0, 1, 2, 3, 4], [9, 8, 7, 6, 5], [30, 2, 2, 11, 0]])
    )
    at_once = logits(subject(variant), given)
    assert distance(logits(subject(variant), given, schedule), at_once) <= TOLERANCE


@every_variant
def test_padding_moves_nothing(variant: str) -> None:
    """Each padded sequence alone, without its padding, in a batch of one."""
    given = sequences(variant)
    padded = logits(subject(variant), replace(given, attention_mask=MASK))
    for i, real in enumerate(MASK):
        alone = Sequences(
            given.tokens[i : i + 1, real], source=None if given.source is None else given.source[i : i + 1]
        )
        assert distance(padded[i : i + 1, real], logits(subject(variant), alone)) <= TOLERANCE


@every_variant
def test_the_cache_is_needed(variant: str) -> None:
    """The comparison above sees something: a second chunk that has forgotten the first gives other logits."""
    given = sequences(variant)
    forgetful = np.concatenate(
        [step(subject(variant).reading(), given.between(*span)) for span in spans((2, 3))], axis=1
    )
    assert distance(forgetful, logits(subject(variant), given)) > 1e-3


@every_variant
def test_interleaved_sequences_share_nothing(variant: str) -> None:
    """Two readings of one program and one set of parameters take turns."""
    first, second = sequences(variant, seed=2), sequences(variant, seed=3)
    one, other = subject(variant).reading(), subject(variant).reading()
    parts = [
        (step(one, first.between(*a)), step(other, second.between(*b)))
        for a, b in zip(spans((2, 1, 2)), spans((1, 3, 1)), strict=True)
    ]
    for given, chunks in zip((first, second), zip(*parts, strict=True), strict=True):
        assert distance(np.concatenate(chunks, axis=1), logits(subject(variant), given)) <= TOLERANCE


@every_variant
def test_a_reading_leaves_its_inputs_alone(variant: str) -> None:
    given, parameters = sequences(variant), subject(variant).parameters
    before = {name: np.copy(value) for name, value in parameters.items()}
    tokens = given.tokens.copy()
    logits(subject(variant), given, (2, 3))
    np.testing.assert_array_equal(given.tokens, tokens)
    for name, value in before.items():
        np.testing.assert_array_equal(parameters[name], value)


def test_both_layouts_of_rope_make_one_model() -> None:
    """With the columns of w_q and w_k in the other order, head by head, an interleaved model is one of halves."""
    half = subject("llama")
    width = half.config.d_head
    apart = np.r_[0:width:2, 1:width:2]

    def reordered(w: Array) -> Array:
        heads = w.reshape(w.shape[0], -1, width)
        result = np.empty_like(heads)
        result[..., apart] = heads
        return result.reshape(w.shape)

    parameters = {
        name: reordered(np.asarray(value)) if name.endswith((".w_q", ".w_k")) else value
        for name, value in half.parameters.items()
    }
    interleaved = Subject(choices("llama", rope_layout="interleaved"), half.config, parameters)
    not_reordered = replace(interleaved, parameters=half.parameters)
    given = sequences("llama")
    assert distance(logits(interleaved, given), logits(half, given)) <= TOLERANCE
    assert distance(logits(not_reordered, given), logits(half, given)) > 1e-3
