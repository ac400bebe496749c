"""The page of variants: it lists what the pack has, and the program is right in each of the models that it names."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest
from guide import ROOT

from conformance.grading import Grader
from conformance.locations import bundled
from conformance.pack.load import load_pack
from conformance.pack.model import Pack, Variant
from conformance.plan.items import plan
from conformance.plan.selection import Selection
from conformance.plan.variants import Graded, variant_of
from conformance.results.records import BROKEN
from conformance.selftest import Laboratory

PAGE = (ROOT / "docs" / "variants.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (.+?) \| `(\{.*\})` \|$", re.MULTILINE)
UNGRADED = ("operation", "graph")
"""Rungs that know no variant of a whole layer."""
MODELS = {name: ast.literal_eval(text) for name, text in ROW.findall(PAGE)}


@cache
def pack() -> Pack:
    return load_pack(bundled("spec") / "forward-pass")


@cache
def laboratory() -> Laboratory:
    return Laboratory(pack())


def test_every_choice_and_value_is_listed() -> None:
    rows = {
        name: values
        for name, values in re.findall(r"^\| `(\w+)` \| (.+?) \|", PAGE, re.MULTILINE)
        if name in pack().choices
    }
    assert set(rows) == set(pack().choices)
    for name, choice in pack().choices.items():
        if not choice.number:
            listed = [ast.literal_eval(v) if v in ("True", "False", "1") else v for v in _values(rows[name])]
            assert set(listed) == set(choice.values), name
            assert listed[0] == choice.default, name


def _values(text: str) -> list[str]:
    return [value.strip("` ") for value in text.split(",")]


def test_the_models_of_the_page() -> None:
    assert len(MODELS) == 14
    assert len({str(variant) for variant in MODELS.values()}) == len(MODELS)


@pytest.mark.parametrize("name", [name for name, variant in MODELS.items() if len(variant) > 1])
@pytest.mark.xdist_group("variants")
def test_no_claim_is_red_on_the_program_itself(name: str) -> None:
    """The claims hold in these variants, too, of which most have no name and no goldens."""
    variant: Variant = variant_of(pack(), MODELS[name], "the page")
    bench = laboratory().bench(pack().program, "")
    graded = Graded((variant,), (variant,))
    grader = Grader(pack(), bench, graded, laboratory().scenarios, {})
    items = plan(pack(), bench.offer, graded, ["float32"], Selection()).items
    verdicts = list(grader.verdicts([item for item in items if item.claim.rung not in UNGRADED]))
    assert len(verdicts) > 150
    assert [(v.claim, v.case) for v in verdicts if v.judgement.verdict in BROKEN] == []


def test_the_name_of_a_variant_says_what_differs_from_its_base() -> None:
    entry = {"base": "minimal", "norm_eps": 1e-5, "final_norm": True, "ffn": "gelu", "tie_embeddings": False}
    assert variant_of(pack(), entry, "a map").name == "minimal+ffn=gelu"
    assert variant_of(pack(), {"base": "llama", "norm": "rms_norm"}, "a map").name == "llama"
