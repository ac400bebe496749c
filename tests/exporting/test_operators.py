"""Operators of ONNX in place of functions: where the equations are theirs, with what the equations say, and nowhere else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

from conformance.exporting.agreement import compared
from conformance.exporting.graph import Type
from conformance.exporting.made import Model
from conformance.exporting.operators import operators_of, table
from conformance.exporting.patterns import matched
from conformance.exporting.program_export import export_program
from conformance.language.arithmetic import Float64
from conformance.language.expression import parse
from conformance.language.program import Equation, Function, Program, merged
from conformance.locations import bundled
from conformance.pack.load import load_pack
from conformance.pack.model import Pack, Variant
from conformance.plan.variants import variant_of

FUSED = ("Attention", "LayerNormalization", "RMSNormalization", "RotaryEmbedding", "Softmax")
ONE_LAYER = {"n_layers": 1}


@pytest.fixture(scope="module")
def pack() -> Pack:
    return load_pack(bundled("spec") / "forward-pass")


def written(
    made: Model, cache: bool, opset: int, dtype: Type = "float32"
) -> tuple[onnx.ModelProto, dict[str, int]]:
    """The model, right by all checks, and how often each operator stands in it."""
    model, steps = export_program(made, cache, dtype, opset)
    assert all(step.passed for step in steps), [str(step) for step in steps]
    counts = Counter(node.op_type for node in model.graph.node)
    return model, {name: counts[name] for name in FUSED if counts[name]}


@pytest.mark.parametrize("opset", [23, 24])
@pytest.mark.parametrize("cache", [False, True], ids=["plain", "cache"])
@pytest.mark.parametrize(
    ("variant", "counts"),
    [
        ("minimal", {"Attention": 2, "LayerNormalization": 5}),
        ("gpt2", {"Attention": 2, "LayerNormalization": 5}),
        ("llama", {"Attention": 2, "RMSNormalization": 5, "RotaryEmbedding": 4}),
        # Its decoder attends twice in each layer.
        ("vaswani", {"Attention": 6, "LayerNormalization": 10}),
    ],
)
def test_each_variant_is_written_with_operators(
    pack: Pack, variant: str, counts: dict[str, int], cache: bool, opset: int
) -> None:
    _, found = written(Model(pack, pack.variants[variant], {}), cache, opset)
    assert found == counts


FURTHER: Mapping[str, tuple[dict[str, Any], dict[str, int]]] = {
    "interleaved": ({"base": "llama", "rope_layout": "interleaved"}, {"Attention": 1, "RMSNormalization": 3, "RotaryEmbedding": 2}),
    "normed heads, partial rotation, window": (
        {"base": "llama", "qk_norm": "head", "rotary_fraction": 0.5, "window": 3},
        {"Attention": 1, "RMSNormalization": 5, "RotaryEmbedding": 2},
    ),
    "parallel, other widths": ({"base": "llama", "block_form": "parallel", "wide_heads": True}, {"Attention": 1, "RMSNormalization": 3, "RotaryEmbedding": 2}),
    "no bias in norms, not causal": ({"base": "minimal", "norm_bias": False, "causal": False}, {"Attention": 1, "LayerNormalization": 3}),
}  # fmt: skip


@pytest.mark.parametrize("name", FURTHER)
def test_choices_without_a_name_are_written_with_operators(pack: Pack, name: str) -> None:
    entry, counts = FURTHER[name]
    variant = variant_of(pack, entry, "a test")
    _, found = written(Model(pack, variant, ONE_LAYER), bool(variant.choices["causal"]), 23)
    assert found == counts


def attributes(model: onnx.ModelProto, operator: str) -> dict[str, Any]:
    node = next(node for node in model.graph.node if node.op_type == operator)
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def test_attributes_are_what_the_equations_say(pack: Pack) -> None:
    model, _ = written(Model(pack, pack.variants["llama"], ONE_LAYER), True, 23)
    assert attributes(model, "Attention") == {"scale": pytest.approx(6**-0.5)}
    assert attributes(model, "RMSNormalization") == {"axis": -1, "epsilon": pytest.approx(1e-5)}
    assert attributes(model, "RotaryEmbedding") == {"interleaved": 0}


@pytest.mark.parametrize(
    ("mistake", "operator", "attribute", "value"),
    [
        ("scale-by-model-width", "Attention", "scale", 24**-0.5),
        ("no-scale", "Attention", "scale", 1.0),
        ("rope-other-layout", "RotaryEmbedding", "interleaved", 1),
        ("eps-1e-6", "RMSNormalization", "epsilon", 1e-6),
    ],
)
def test_a_mistake_in_a_number_is_another_attribute(
    pack: Pack, mistake: str, operator: str, attribute: str, value: float
) -> None:
    made = Model(pack, pack.variants["llama"], ONE_LAYER, pack.program.mistakes[mistake])
    model, _ = written(made, True, 23)
    assert attributes(model, operator)[attribute] == pytest.approx(value)


FUNCTIONS = ("softmax", "attention", "for_query_heads", "rope", "rms_norm", "layer_norm", "head_norm")


def mistakes_of_operators(pack: Pack) -> list[str]:
    return [m.id for m in pack.program.mistakes.values() if any(name in FUNCTIONS for name, _ in m.replace)]


def fitting(pack: Pack, mistake: str) -> Variant:
    """A variant in which a mistake changes one of the functions that operators stand for."""
    wrong = pack.program.mistakes[mistake]
    further = {"base": "llama", "qk_norm": "head", "rotary_fraction": 0.5}
    for variant in (*pack.variants.values(), variant_of(pack, further, "a test")):
        changed = pack.program.changed_by(wrong, wrong.forms()[0], variant.choices)
        if changed & set(FUNCTIONS) & Model(pack, variant, {}).scenario().entered:
            return variant
    pytest.skip("it is about no variant that is tried here")


@pytest.mark.parametrize("mistake", mistakes_of_operators(load_pack(bundled("spec") / "forward-pass")))
def test_a_mistake_is_never_hidden_by_an_operator(pack: Pack, mistake: str) -> None:
    """Whatever becomes of it, the graph is the program with the mistake, and not the one without."""
    made = Model(pack, fitting(pack, mistake), ONE_LAYER, pack.program.mistakes[mistake])
    if made.variant.choices["structure"] != "decoder":
        made = replace(made, sizes={})
    try:
        model, _ = written(made, True, 23)
    except ValueError as error:
        pytest.skip(str(error))
    plain, _ = written(replace(made, mistake=None), True, 23)
    scenario = made.scenario(2, (3, 2), (0, 1))
    wrong, true = (
        scenario.read(Float64(), program)[-1].outputs[scenario.main_output].array
        for program in (made.program, pack.program)
    )
    differs = not np.array_equal(wrong, true, equal_nan=True)
    same = [n.op_type for n in model.graph.node] == [n.op_type for n in plain.graph.node]
    if same and differs:
        assert not all(t.agrees for t in compared(model, replace(made, mistake=None), "float32", True))


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_dtypes(pack: Pack, dtype: Type) -> None:
    _, found = written(Model(pack, pack.variants["llama"], ONE_LAYER), True, 23, dtype)
    # Attributes are float32: in float64 they would be too coarse, and onnxruntime has not all of these operators.
    assert found == (
        {"Softmax": 1}
        if dtype == "float64"
        else {"Attention": 1, "RMSNormalization": 3, "RotaryEmbedding": 2}
    )


# -- what is recognised ------------------------------------------------------------------------------


def changed(program: Program, function: str, name: str, text: str) -> tuple[Program, Function]:
    """The program with one equation written otherwise."""
    made = merged(program.functions[function], Equation(name, {"": parse(text)}))
    return replace(program, functions={**program.functions, function: made}), made


def recognised(pack: Pack, program: Program, function: Function, **choices: Any) -> set[str]:
    every = {**pack.variants["llama"].choices, **choices}
    return {e.name for e in table() if matched(e.pattern, function, program, every)}


@pytest.mark.parametrize(
    ("function", "name", "text", "found"),
    [
        ("attention", "scores", "dot(q, for_query_heads(keys), over=dh) * 0.25", {"Attention"}),
        ("attention", "scores", "dot(q, for_query_heads(keys), over=dh)", {"Attention"}),
        ("attention", "scores", "dot(for_query_heads(keys), q, over=dh)", set()),
        ("attention", "scores", "dot(q, for_query_heads(values), over=dh) / 2", {"Attention"}),
        ("attention", "masked_scores", "where(visible, scores, -1e9)", set()),
        ("attention", "weights", "softmax(masked_scores, over=key)", set()),
        (
            "attention",
            "weights",
            "where(any(visible, over=key), softmax(masked_scores, over=query), 0)",
            set(),
        ),
        ("rms_norm", "normed", "x / (sqrt(mean_square) + norm_eps)", set()),
        ("rms_norm", "mean_square", "mean(abs(x) ** 2, over=model)", set()),
        ("rms_norm", "is", "normed", set()),
        ("rope", "angle", "-positions * frequency", {"RotaryEmbedding"}),
        ("rope", "a", "take(sides, side=1)", set()),
        ("softmax", "exponentials", "exp(x)", set()),
        ("for_query_heads", "is", "take(x, kv_head=index(head) % Hkv)", set()),
    ],
)
def test_equations_are_what_is_recognised(
    pack: Pack, function: str, name: str, text: str, found: set[str]
) -> None:
    program, made = changed(pack.program, function, name, text)
    assert recognised(pack, program, made) == found


def test_a_function_that_calls_one_of_another_form_is_not_recognised(pack: Pack) -> None:
    program, _ = changed(pack.program, "for_query_heads", "is", "take(x, kv_head=index(head) % Hkv)")
    assert recognised(pack, program, program.functions["attention"]) == set()
    program, _ = changed(pack.program, "softmax", "exponentials", "exp(x)")
    assert recognised(pack, program, program.functions["attention"]) == set()


def test_names_do_not_count(pack: Pack) -> None:
    """The norm of each head has the equations of the other, over another axis and of other names."""
    assert recognised(pack, pack.program, pack.program.functions["head_norm"]) == {"RMSNormalization"}
    assert {
        e.name for e, _ in operators_of(18).of(pack.program.functions["head_norm"], pack.program, {})
    } == set()


def test_a_row_that_reads_nothing_is_zero_in_the_operator(pack: Pack) -> None:
    """What the table says of `Attention`, at padding: seen in onnxruntime, for each sequence."""
    import onnxruntime

    model, _ = written(Model(pack, pack.variants["llama"], ONE_LAYER), False, 23)
    attention = next(n for n in model.graph.node if n.op_type == "Attention")
    model.graph.output.append(onnx.helper.make_tensor_value_info(attention.output[0], 1, None))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    mask = np.array([[0, 0, 1, 1], [1, 1, 1, 1], [0, 1, 1, 1]])
    positions = np.maximum(mask.cumsum(axis=1) - 1, 0)
    feeds = {"input_ids": np.arange(12).reshape(3, 4), "attention_mask": mask, "position_ids": positions}
    z = session.run([attention.output[0]], feeds)[0]
    assert (z.transpose(0, 2, 1, 3)[mask == 0] == 0).all()
    assert (z.transpose(0, 2, 1, 3)[mask == 1] != 0).any(axis=(-1, -2)).all()
