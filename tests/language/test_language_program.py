"""The check of the pack's own program, and that its short cuts change nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from conformance.language.check import NUMBERS, check
from conformance.language.entries import Root, explored, roots
from conformance.language.errors import PackError
from conformance.language.evaluate import Reading
from conformance.language.parameters import parameter_axes
from conformance.language.program import Mistake, Text
from conformance.language.symbolic import Shape, Symbolic, fixed_sizes, tensor_of
from conformance.language.tensors import Named
from conformance.language.traces import Checker, Variant
from conformance.locations import bundled
from conformance.pack.load import load_pack
from conformance.pack.model import Pack
from conformance.pack.program_check import entry_points, program_faults
from language.small import small


@cache
def pack() -> Pack:
    return load_pack(bundled("spec") / "forward-pass")


@cache
def ways() -> list[Root]:
    variants = explored(
        (v.choices for v in pack().variants.values()), {n: f.values for n, f in pack().choices.items()}
    )
    return roots(pack().program, [e for o in pack().operations.values() for e in entry_points(o)], variants)


def test_the_program_and_all_its_mistakes_are_sound() -> None:
    p = pack()
    assert [str(e) for e in program_faults(p.program, p.operations, p.choices, p.variants)] == []


def test_every_function_is_read_in_more_than_one_variant() -> None:
    checker = Checker(pack().program, NUMBERS)
    for root in ways():
        root.read(checker, root.variants)
    assert checker.entered == set(pack().program.functions)
    assert len({id(v) for root in ways() for v in root.variants}) > 70


def described(checker: Checker, root: Root, variant: Variant) -> list[Any]:
    """All that comes of the calls of a root, in plain words."""
    root.read(checker, [variant])
    found = []
    for call in checker.calls.values():
        for trace in call.traces:
            if variant in trace.variants:
                for name, value in sorted(trace.env.items()):
                    if isinstance(value, Named):
                        sizes = sorted(
                            (a, str(s)) for a, s in zip(value.axes, value.array.sizes, strict=True)
                        )
                        found.append((call.function.name, name, value.array.kind, sizes))
    return sorted(map(str, found))


@pytest.mark.parametrize("part", range(4))
def test_what_is_not_read_again_would_have_come_to_the_same(part: int) -> None:
    shared = Checker(pack().program, NUMBERS)
    for root in ways():
        root.read(shared, root.variants)
    for i, root in enumerate(ways()):
        for variant in root.variants[(part + i) % 4 :: 16]:
            again = Variant.of(variant.choices)
            assert described(shared, root, again) == described(Checker(pack().program, NUMBERS), root, again)


@pytest.mark.parametrize("variant", ["minimal", "gpt2", "llama", "vaswani"])
@pytest.mark.parametrize(
    "function", ["model", "block_operation", "decoder_block_operation", "cross_attention", "rope"]
)
def test_parameters_are_those_that_a_reading_declares(variant: str, function: str) -> None:
    program, choices = pack().program, pack().variants[variant].choices
    expected = parameter_axes(program, function, choices, 3)
    given = program.functions[function].given
    r: Reading[Shape] = Reading(
        program, choices, fixed_sizes(program.axes),
        {name: tensor_of(program.axes, p.axes, "real") for name, p in expected.items()},
        Symbolic(), numbers={"n_layers": 3},
    )  # fmt: skip
    inputs = {
        name: tensor_of(program.axes, [a for a in g.axes if a != "..."], "any")
        for name, g in given.items() if not g.optional
    }  # fmt: skip
    r.call(function, inputs)
    assert list(expected) == list(r.declared)
    assert expected == r.declared


def test_parameters_of_a_model() -> None:
    found = parameter_axes(pack().program, "model", pack().variants["llama"].choices, 2)
    assert {
        name: " ".join(p.axes) for name, p in found.items() if name.startswith(("layers.1.", "lm", "embed"))
    } == {
        "embed": "vocab model",
        "layers.1.norm1.weight": "model",
        "layers.1.attention.w_q": "model head_dh",
        "layers.1.attention.w_k": "model kv_head_dh",
        "layers.1.attention.w_v": "model kv_head_dv",
        "layers.1.attention.w_o": "head_dv model",
        "layers.1.norm2.weight": "model",
        "layers.1.ffn.w_gate": "model ff",
        "layers.1.ffn.w_up": "model ff",
        "layers.1.ffn.w_down": "ff model",
        "lm_head": "model vocab",
    }


def test_parameters_of_nothing() -> None:
    with pytest.raises(PackError, match=r"unknown function 'modl' \(did you mean 'model'\?\)"):
        parameter_axes(pack().program, "modl", {})


def test_parameters_of_a_function_that_calls_itself() -> None:
    program = small("functions:\n  f:\n    given: {x: query}\n    is: f(x)\n    gives: query\n")
    with pytest.raises(PackError, match=r"program.yaml:2: f calls itself"):
        parameter_axes(program, "f", {})


WRONG = {
    ("attention", "scores"): ("dot(q, keys, over=dh) / sqrt(Dh)", "'scores' has axes"),
    ("attention", "weights"): (
        "softmax(masked_scores, over=kye)",
        "unknown axis 'kye' (did you mean 'key'?)",
    ),
    ("layer", "u"): ("x + atended", "unknown tensor 'atended' (did you mean 'attended'?)"),
    ("multi_head_attention", "values"): ("join(past_values, v, into=query)", "'values' has axes"),
    ("gated_ffn", "ffn_up"): ("dot(x, w_up, over=ff)", "there is no axis 'ff' in [batch query model]"),
    ("model", "embedded"): ("embedding(positions, tokens)", "the input 'tokens' of embedding has axes"),
    ("unembedding", "logits"): (
        "dot(fused, embd, over=model)",
        "unknown tensor 'embd' (did you mean 'embed'?)",
    ),
}


@pytest.mark.parametrize(("place", "text", "message"), [(k, *v) for k, v in WRONG.items()])
def test_a_slip_in_the_program_is_found(place: tuple[str, str], text: str, message: str) -> None:
    p = pack()
    old = p.program.functions[place[0]].equation(place[1])
    assert old is not None
    new = replace(
        old, alternatives={k: replace(e, text=text, tree=_tree(text)) for k, e in old.alternatives.items()}
    )
    function = p.program.functions[place[0]].with_equation(new)
    program = replace(p.program, functions={**p.program.functions, place[0]: function}, mistakes={})
    found = [str(e) for e in program_faults(program, p.operations, p.choices, p.variants)]
    assert any(message in error and str(old.at.line) in error for error in found), found


@pytest.mark.parametrize(("place", "text", "message"), [(k, *v) for k, v in WRONG.items()])
def test_a_slip_in_a_mistake_is_found(place: tuple[str, str], text: str, message: str) -> None:
    p = pack()
    old = p.program.functions[place[0]].equation(place[1])
    assert old is not None
    new = replace(
        old,
        by="",
        alternatives={
            "": replace(old.alternatives[next(iter(old.alternatives))], text=text, tree=_tree(text))
        },
    )
    program = replace(p.program, mistakes={"slip": Mistake("slip", {place: new}, Text("", ""))})
    found = [str(e) for e in program_faults(program, p.operations, p.choices, p.variants)]
    assert any(message in error and "'slip'" in error for error in found), found


def _tree(text: str) -> Any:
    from conformance.language.expression import parse

    return parse(text).tree


def test_a_pack_without_entry_points_has_only_unused_functions() -> None:
    p = pack()
    variants = explored((v.choices for v in p.variants.values()), {n: f.values for n, f in p.choices.items()})
    found = check(replace(p.program, mistakes={}), variants, [])
    assert {e.message for e in found} == {
        f"the function '{name}' is never called" for name in pack().program.functions
    }
