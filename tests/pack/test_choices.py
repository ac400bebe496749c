"""The values of choices, and the sizes that cases give to a variant."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from conformance.language.errors import PackError
from conformance.language.parameters import parameter_axes
from conformance.locations import bundled
from conformance.pack import claim_files
from conformance.pack.load import load_pack
from conformance.pack.model import Pack
from conformance.pack.yaml_source import parse
from conformance.plan.scenarios import axis_sizes
from conformance.plan.variants import VariantError, variant_of


@cache
def pack() -> Pack:
    return load_pack(bundled("spec") / "forward-pass")


def chosen(name: str, value: Any) -> Any:
    return variant_of(pack(), {"base": "llama", name: value}, "the test").choices[name]


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("rotary_fraction", 1.0, 1),
        ("rotary_fraction", 0.25, 0.25),
        ("rotary_fraction", 0.4, 0.4),
        ("window", "none", "none"),
        ("window", 4096, 4096),
        ("window", 3.0, 3),
        ("embed_scale", 1.0, 1),
        ("bias", "ffn", "ffn"),
    ],
)
def test_a_value_that_is_allowed(name: str, value: Any, kept: Any) -> None:
    found = chosen(name, value)
    assert found == kept
    assert type(found) is type(kept)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "rotary_fraction",
            0,
            "rotary_fraction: 0 is neither 1, 0.25, 0.5 nor a number above 0 and at most 1",
        ),
        ("rotary_fraction", 1.5, "at most 1"),
        ("rotary_fraction", True, "at most 1"),
        ("window", 0, "window: 0 is neither none, 3 nor a whole number from 1 on"),
        ("window", 2.5, "a whole number from 1 on"),
        ("window", float("inf"), "a whole number from 1 on"),
        ("window", float("nan"), "a whole number from 1 on"),
        ("window", "all", "a whole number from 1 on"),
        ("norm_eps", 0.0, "norm_eps: 0.0 is not a positive number"),
        ("norm_eps", "small", "is not a positive number"),
        ("qk_norm", "heads", "qk_norm: 'heads' is not one of none, head; did you mean 'head'"),
    ],
)
def test_a_value_that_is_not_allowed(name: str, value: Any, message: str) -> None:
    with pytest.raises(VariantError) as caught:
        chosen(name, value)
    assert message in str(caught.value)


def test_a_choice_needs_values_or_a_kind_of_number() -> None:
    source = parse("choices:\n  colour: {default: red}\nvariants: {}\n", "variants.yaml")
    with pytest.raises(PackError, match="the choice 'colour' needs values, or number: positive or fraction"):
        claim_files.choice_fields(source)


def sizes(case: str, **choices: Any) -> dict[str, int]:
    variant = variant_of(pack(), {"base": "llama", **choices}, "the test")
    return axis_sizes(pack(), pack().cases[case], variant.choices)


def test_sizes_of_a_variant() -> None:
    plain = sizes("model-plain")
    assert (plain["model"], plain["dh"], plain["rotary"]) == (24, 6, 6)
    wide = sizes("model-plain", wide_heads=True)
    assert (wide["model"], wide["dh"], wide["head_dh"]) == (18, 6, 24)
    partial = sizes("model-plain", rotary_fraction=0.25)
    assert (partial["model"], partial["dh"], partial["rotary"]) == (96, 24, 6)
    assert int(partial["dh"] * 0.25) == partial["rotary"]


@pytest.mark.parametrize("fraction", [0.25, 0.3, 0.4, 0.5, 0.75, 1])
def test_what_turns_is_the_fraction_of_a_head_in_every_case(fraction: float) -> None:
    for case in pack().cases.values():
        if case.operation in ("block", "model", "multi_head_attention"):
            found = sizes(case.id, rotary_fraction=fraction)
            assert abs(found["dh"] * fraction - found["rotary"]) < 1
            assert found["rotary"] % 2 == 0


def test_an_operation_on_heads_knows_no_fraction() -> None:
    assert sizes("attention-plain", rotary_fraction=0.25) == sizes("attention-plain")
    assert sizes("attention-plain", wide_heads=True)["dh"] == sizes("attention-plain")["dh"]


def test_a_width_that_a_case_gives_stays() -> None:
    assert sizes("mha-free-widths", wide_heads=True)["model"] == 10


def test_parameters_of_the_choices() -> None:
    def names(**choices: Any) -> set[str]:
        variant = variant_of(pack(), {"base": "llama", **choices}, "the test")
        return set(parameter_axes(pack().program, "model", variant.choices, 1))

    assert names(qk_norm="head") - names() == {
        "layers.0.attention.q_norm.weight",
        "layers.0.attention.k_norm.weight",
    }
    assert names(ffn="geglu") == names() == names(block_form="parallel", window=3, rotary_fraction=0.5)
    encoded = names(structure="encoder_decoder", encoder_final_norm=True)
    assert encoded - names(structure="encoder_decoder") == {"encoder.final_norm.weight"}
    plain = names(ffn="relu")
    assert names(ffn="relu", bias="ffn") - plain == {"layers.0.ffn.b_1", "layers.0.ffn.b_2"}
