"""The program emitted as ONNX: right at sizes it was not made at, with its names, true or mistaken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from conformance.cli import Exit, main
from conformance.exporting.agreement import compared
from conformance.exporting.graph import Graph
from conformance.exporting.lengths import Lengths
from conformance.exporting.made import Model
from conformance.exporting.program_export import export_program
from conformance.exporting.reading import layout
from conformance.language.sizes import Size
from conformance.locations import bundled
from conformance.pack.load import load_pack
from conformance.pack.model import Pack


@pytest.fixture(scope="module")
def pack() -> Pack:
    return load_pack(bundled("spec") / "forward-pass")


def made(pack: Pack, variant: str, mistake: str = "", form: int = 0) -> Model:
    return Model(pack, pack.variants[variant], {}, pack.program.mistakes.get(mistake), form)


@pytest.mark.parametrize("cache", [False, True], ids=["plain", "cache"])
@pytest.mark.parametrize("variant", ["minimal", "gpt2", "llama", "vaswani"])
def test_each_variant_agrees_with_the_program(pack: Pack, variant: str, cache: bool) -> None:
    _, steps = export_program(made(pack, variant), cache, "float32", 18)
    assert [step.name for step in steps] == ["checker", "program"]
    assert all(step.passed for step in steps), [str(step) for step in steps]


@pytest.mark.parametrize(("dtype", "opset"), [("float16", 18), ("float64", 18), ("float32", 24)])
def test_other_dtypes_and_opsets_agree(pack: Pack, dtype: str, opset: int) -> None:
    model, steps = export_program(made(pack, "llama"), True, dtype, opset)  # type: ignore[arg-type]
    assert all(step.passed for step in steps), [str(step) for step in steps]
    assert model.opset_import[0].version == opset


def test_names_and_axes_are_the_usual_ones(pack: Pack) -> None:
    model, _ = export_program(made(pack, "llama"), True, "float32", 18)
    axes = {
        value.name: [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }
    assert axes["input_ids"] == axes["position_ids"] == ["batch", "query"]
    assert axes["attention_mask"] == ["batch", "past + query"]
    assert axes["past_key_values.1.value"] == ["batch", 2, "past", 6]
    assert axes["present.0.key"] == ["batch", 2, "past + query", 6]
    assert axes["logits"] == ["batch", "query", 23]
    nodes = {node.name: node.op_type for node in model.graph.node}
    assert nodes["layers.1.attention.weights/Softmax"] == "Softmax"
    assert "layers.0.norm1.weight" in {w.name for w in model.graph.initializer}


MISTAKES = [
    ("scale-by-model-width", 0, "llama"),
    ("mask-top-left", 2, "llama"),
    ("cache-forgotten", 0, "minimal"),
    ("cache-scrambled", 0, "gpt2"),
    ("rope-other-layout", 0, "llama"),
    ("positions-not-shifted-under-left-padding", 0, "gpt2"),
    ("norm-after-head", 0, "llama"),
    ("returns-probabilities", 0, "gpt2"),
    ("history-cut-off", 0, "vaswani"),
    ("softmax-global-maximum", 0, "vaswani"),
]


@pytest.mark.parametrize(("mistake", "form", "variant"), MISTAKES)
def test_a_mistake_is_emitted_as_it_is(pack: Pack, mistake: str, form: int, variant: str) -> None:
    wrong = made(pack, variant, mistake, form)
    model, steps = export_program(wrong, True, "float32", 18)
    assert all(step.passed for step in steps), [str(step) for step in steps]
    tried = list(compared(model, replace(wrong, mistake=None), "float32", cache=True))
    assert not all(t.agrees for t in tried), "nothing is wrong with it"


def test_what_stands_for_a_left_out_input_is_in_the_graph_where_a_mistake_makes_it(pack: Pack) -> None:
    mistakes = pack.program.mistakes.values()
    wrong = next(m for m in mistakes if ("model", "positions") in m.replace)
    model, _ = export_program(replace(made(pack, "gpt2"), mistake=wrong), False, "float32", 18)
    assert "position_ids" not in {value.name for value in model.graph.input}


def test_axes_stand_as_the_pack_writes_its_tensors(pack: Pack) -> None:
    order = layout(pack.program)
    for tensor in pack.program.tensors.values():
        axes = [axis for axis in tensor.axes if axis in order]
        assert axes == sorted(axes, key=order.__getitem__), tensor.name
    assert order["head"] < order["query"]
    assert order["kv_head"] < order["query"]


@pytest.mark.parametrize(("past", "query"), [(0, 1), (4, 3)])
def test_sizes_are_computed_in_the_graph(past: int, query: int) -> None:
    from onnx.reference import ReferenceEvaluator

    symbol_past, symbol_query = Size.symbol("past"), Size.symbol("query")
    sizes = [
        symbol_past + symbol_query * 2 - 1,
        6 // (symbol_past + 2),
        (symbol_past + symbol_query) % 3,
        symbol_query * symbol_past,
    ]
    wanted = [past + 2 * query - 1, 6 // (past + 2), (past + query) % 3, query * past]
    graph = Graph(18)
    lengths = Lengths(graph)
    value = graph.input("x", "float32", (symbol_past, symbol_query))
    lengths.of_axis("past", value, 0)
    lengths.of_axis("query", value, 1)
    for i, size in enumerate(sizes):
        graph.output(lengths.value(size), f"size_{i}")
    model = graph.model("sizes", {})
    got = ReferenceEvaluator(model).run(None, {"x": np.zeros((past, query), np.float32)})
    assert [int(number) for number in got] == wanted


# -- the command -------------------------------------------------------------------------------------


def export(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["export", *words])
    return result.exit_code, result.output


def test_the_command_writes_a_checked_file(tmp_path: Path) -> None:
    file = tmp_path / "llama.onnx"
    code, said = export(
        "program", "--variant", "llama", "--size", "n_layers=1", "--external-data", "-o", str(file)
    )
    assert code == Exit.CONFORMS, said
    assert "agree" in said or "as the program in float64" in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["llama.onnx", "llama.onnx.data"]


def test_what_does_not_hold_is_not_written_unless_forced(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    words = ("program", "--variant", "minimal", "--dtype", "bfloat16", "-o", str(file))
    code, said = export(*words)
    assert code == Exit.DOES_NOT_CONFORM
    assert "onnxruntime cannot load it" in said
    assert list(tmp_path.iterdir()) == []
    code, _ = export(*words, "--force")
    assert code == Exit.DOES_NOT_CONFORM
    assert file.is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["program"], "--variant is missing"),
        (["program", "--variant", "lama"], "the pack knows minimal"),
        (["program", "--variant", "llama", "--mistake", "mask-topleft"], "did you mean 'mask-top-left'"),
        (["program", "--variant", "llama", "--mistake", "mask-top-left:7"], "its forms are 1: row = 0"),
        (["program", "--variant", "llama", "--size", "heads=3"], "did you mean 'n_heads'"),
        (["program", "--variant", "llama", "--size", "n_heads=many"], "a whole number"),
        (["program", "--variant", "llama", "--mistake", "projections-shared"], "does not fit this model"),
    ],
)
def test_bad_input_is_said_in_one_message(tmp_path: Path, words: list[str], said: str) -> None:
    code, output = export(*words, "-o", str(tmp_path / "model.onnx"))
    assert code == Exit.USAGE
    assert said in output
    assert list(tmp_path.iterdir()) == []


def test_what_it_prints_is_there_in_chinese(tmp_path: Path) -> None:
    words = (
        "program",
        "--variant",
        "minimal",
        "--mistake",
        "no-scale",
        "--size",
        "n_layers=1",
        "--lang",
        "zh",
    )
    code, said = export(*words, "-o", str(tmp_path / "model.onnx"))
    assert code == Exit.CONFORMS, said
    assert "个节点" in said
    assert "带有此错误的程序的 float64 结果相同" in said
    assert "tolerance" not in said
