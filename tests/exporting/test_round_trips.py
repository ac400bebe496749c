"""What is emitted or exported is graded as a file that nobody knows: right ones conform, whatever the operators."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

from conformance.cli import Exit, main
from conformance.exporting.files import write
from conformance.exporting.made import Model
from conformance.exporting.program_export import export_program
from conformance.locations import bundled
from conformance.onnx.own_words import KEY
from conformance.pack.load import load_pack
from conformance.pack.model import Pack
from conformance.plan.variants import variant_of
from conformance.results.store import Writer, read_results
from conformance.runner import Options, run
from conformance.targets import resolve_target
from exporting.grades import end_of, graded

MODELS = Path(__file__).parent / "models"


@pytest.fixture(scope="module")
def pack() -> Pack:
    return load_pack(bundled("spec") / "forward-pass")


@pytest.mark.parametrize("opset", [18, 23, 24])
@pytest.mark.parametrize("cache", [False, True], ids=["plain", "cache"])
@pytest.mark.parametrize("variant", ["minimal", "gpt2", "llama"])
def test_what_is_emitted_conforms(pack: Pack, variant: str, cache: bool, opset: int, tmp_path: Path) -> None:
    sizes = {} if opset == 18 else {"n_layers": 1}
    results = graded(Model(pack, pack.variants[variant], sizes), cache, tmp_path, opset)
    assert results.run["variants"] == [variant]
    assert end_of(results)["conforms"] is True
    rungs = {line["rung"] for line in results.of_verdict("pass")}
    assert rungs == ({"model", "graph", "decode"} if cache else {"model", "graph"})


def test_a_variant_without_a_name_conforms(pack: Pack, tmp_path: Path) -> None:
    entry = {"base": "llama", "rope_layout": "interleaved", "rope_theta": 500000.0}
    results = graded(Model(pack, variant_of(pack, entry, "a test"), {"n_layers": 1}), True, tmp_path)
    assert results.run["variants"] == ["llama+rope_layout=interleaved,rope_theta=500000.0"]
    assert end_of(results)["conforms"] is True


@pytest.mark.parametrize("mistake", ["", "softmax-missing"])
def test_a_file_that_says_nothing_of_itself_is_graded_on_what_is_read(
    pack: Pack, mistake: str, tmp_path: Path
) -> None:
    """Without a Softmax that could be read its behaviour is graded, and nothing of it is called wrong."""
    wrong = pack.program.mistakes.get(mistake)
    model, _ = export_program(
        Model(pack, pack.variants["llama"], {"n_layers": 1}, wrong), True, "float32", 18
    )
    del model.metadata_props[:]
    file = tmp_path / "model.onnx"
    write(model, file, external=False)
    with Writer(tmp_path / "report") as writer:
        run(pack, resolve_target([str(file)]), Options(), writer)
    results = read_results(tmp_path / "report")
    assert end_of(results)["conforms"] is True
    passed = {line["claim"] for line in results.of_verdict("pass")}
    assert ("q005.logits" in passed) is (not mistake)
    assert "q005.causal" in passed


@pytest.mark.parametrize(
    "said",
    [
        {"variant": "llama", "sizes": {"d_model": 7}},
        {"variant": "llama", "sizes": {"n_layers": 10**9}},
        {"variant": ["llama"], "sizes": {}},
        "no json",
    ],
)
def test_what_a_file_says_is_believed_only_where_it_fits(pack: Pack, said: object, tmp_path: Path) -> None:
    model, _ = export_program(Model(pack, pack.variants["minimal"], {"n_layers": 1}), False, "float32", 18)
    onnx.helper.set_model_props(model, {KEY: said if isinstance(said, str) else json.dumps(said)})
    file = tmp_path / "model.onnx"
    write(model, file, external=False)
    with Writer(tmp_path / "report") as writer:
        run(pack, resolve_target([str(file)]), Options(), writer)
    results = read_results(tmp_path / "report")
    assert results.run["variants"] == ["minimal"]
    assert end_of(results)["conforms"] is True


def export(file: Path, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(
        main, ["export", *words, "-o", str(file), "--report", str(file.parent / "report")]
    )
    return result.exit_code, result.output


def own(name: str) -> list[str]:
    return ["pytorch", f"{MODELS / 'layers.py'}:{name}"]


@pytest.mark.parametrize("opset", ["18", "23", "24"])
@pytest.mark.parametrize("cache", [[], ["--cache"]], ids=["plain", "cache"])
@pytest.mark.parametrize(
    ("words", "variant"),
    [
        ([*own("Chapter"), "--map", str(MODELS / "chapter.yaml")], "minimal"),
        (["hf:GPT2LMHeadModel"], "gpt2"),
        (["hf:LlamaForCausalLM"], "llama"),
    ],
    ids=["minimal", "gpt2", "llama"],
)
def test_what_pytorch_exports_conforms(
    words: list[str], variant: str, cache: list[str], opset: str, tmp_path: Path
) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("onnxscript")
    code, said = export(tmp_path / "model.onnx", *words, *cache, "--opset", opset, "--size", "n_layers=1")
    assert code == Exit.CONFORMS, said
    results = read_results(tmp_path / "report")
    assert results.run["variants"] == [variant]
    rungs = {line["rung"] for line in results.of_verdict("pass")}
    assert rungs == ({"model", "graph", "decode"} if cache else {"model", "graph"})


@pytest.mark.parametrize(
    "words",
    [
        ["hf:Qwen3ForCausalLM", "--cache", "--opset", "24", "--size", "n_layers=1"],
        # Its attention keeps tokens before sequences where both are one axis.
        [*own("OfLayers"), "--map", str(MODELS / "of_layers.yaml")],
        [*own("OfLayers"), "--map", str(MODELS / "of_layers.yaml"), "--opset", "23"],
    ],
    ids=["qwen3-24", "layers-18", "layers-23"],
)
def test_real_classes_are_exported_and_conform(words: list[str], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    pytest.importorskip("onnxscript")
    code, said = export(tmp_path / "model.onnx", *words)
    assert code == Exit.CONFORMS, said
    assert "conforms in all it offers" in said


@pytest.mark.parametrize(("opset", "differs"), [(18, True), (23, False)])
def test_a_boolean_mask_below_opset_23_is_told(opset: int, differs: bool, tmp_path: Path) -> None:
    """A row that reads nothing has zero in PyTorch, and the mean of all values in the file: at padding alone."""
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    words = [
        *own("Padded"),
        "--map",
        str(MODELS / "padded.yaml"),
        "--opset",
        str(opset),
        "--size",
        "n_layers=1",
    ]
    code, said = export(tmp_path / "model.onnx", *words)
    assert code == Exit.CONFORMS, said
    assert ("at padding, which nobody reads, it has other numbers" in said) is differs


def test_one_table_of_angles_for_all_sequences_is_refused_with_what_to_do(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("onnxscript")
    ready = bundled("adapters") / "maps" / "transformers.LlamaForCausalLM.yaml"
    lines = ready.read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "map.yaml").write_text(
        "".join(li for li in lines if "position_ids" not in li), encoding="utf-8"
    )
    words = [
        "hf:LlamaForCausalLM",
        "--map",
        str(tmp_path / "map.yaml"),
        "--opset",
        "23",
        "--size",
        "n_layers=1",
    ]
    code, said = export(tmp_path / "model.onnx", *words)
    assert code == Exit.DOES_NOT_CONFORM
    assert "--opset 24 or 18" in said
    assert not (tmp_path / "model.onnx").exists()


def test_weights_of_an_earlier_export_do_not_stay_behind(tmp_path: Path) -> None:
    file, data = tmp_path / "m.onnx", tmp_path / "m.onnx.data"
    words = ["program", "--variant", "minimal", "--size", "n_layers=1"]
    assert export(file, *words, "--external-data")[0] == Exit.CONFORMS
    first = data.read_bytes()
    assert export(file, *words, "--external-data", "--seed", "3")[0] == Exit.CONFORMS
    assert len(data.read_bytes()) == len(first)
    assert data.read_bytes() != first
    assert export(file, *words)[0] == Exit.CONFORMS
    assert not data.exists()
    data.write_text("somebody's", encoding="utf-8")
    assert export(file, *words)[0] == Exit.CONFORMS
    assert data.exists(), "a file that no export wrote is gone"
