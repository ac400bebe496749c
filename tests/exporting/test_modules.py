"""PyTorch modules exported: right at sizes that the exporter has not seen, or not written, with the reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance.cli import Exit, main
from conformance.results.store import read_results

MODELS = Path(__file__).parent / "models"


def export(file: Path, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(
        main, ["export", *words, "-o", str(file), "--report", str(file.parent / "report")]
    )
    return result.exit_code, result.output


def awkward(file: Path, name: str, *more: str) -> tuple[int, str]:
    return export(
        file, "pytorch", f"{MODELS / 'awkward.py'}:{name}", "--map", str(MODELS / "awkward.yaml"), *more
    )


def needs_torch() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")


def test_a_module_of_ones_own(tmp_path: Path) -> None:
    needs_torch()
    import onnx

    file = tmp_path / "gpt.onnx"
    code, said = awkward(file, "Clashes", "--external-data", "--size", "n_layers=1")
    assert code == Exit.CONFORMS, said
    assert "as the module at 2 sizes" in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["gpt.onnx", "gpt.onnx.data", "report"]
    results = read_results(tmp_path / "report")
    assert results.run["target"] == str(file)
    assert results.run["environment"]["export"]["checker"] == "passes"
    assert results.end
    assert results.end["conforms"] is True
    model = onnx.load(str(file), load_external_data=False)
    assert not any(node.metadata_props for node in model.graph.node), "paths of this machine are in it"
    assert [value.name for value in model.graph.input] == ["input_ids"]


def test_a_model_of_a_library_with_its_cache(tmp_path: Path) -> None:
    needs_torch()
    pytest.importorskip("transformers")
    import onnx

    file = tmp_path / "llama.onnx"
    code, said = export(file, "hf:LlamaForCausalLM", "--cache", "--size", "n_layers=1")
    assert code == Exit.CONFORMS, said
    assert "as the module at 4 sizes" in said
    assert "as the program in float64 at 4 sizes" in said
    graph = onnx.load(str(file)).graph
    assert [d.dim_param for d in graph.input[1].type.tensor_type.shape.dim] == ["batch", "past + query"]
    assert [v.name for v in graph.input][3:] == ["past_key_values.0.key", "past_key_values.0.value"]
    assert [v.name for v in graph.output] == ["logits", "present.0.key", "present.0.value"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Branches", "PyTorch's exporter refuses it: GuardOnDataDependentSymNode"),
        ("Unsupported", "No ONNX function found"),
        ("FixedMask", "the module does not run: RuntimeError"),
        ("PythonLength", "inferred a static shape of 5"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_one_line(tmp_path: Path, name: str, said: str) -> None:
    needs_torch()
    code, output = awkward(tmp_path / "model.onnx", name)
    assert code == Exit.NOTHING_GRADABLE
    assert said in output
    assert output.count("\n") == 2, output
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx.log"]
    assert "Traceback" in (tmp_path / "model.onnx.log").read_text(encoding="utf-8")


def test_a_file_that_is_not_the_module_is_written_only_when_forced(tmp_path: Path) -> None:
    needs_torch()
    file = tmp_path / "model.onnx"
    code, said = awkward(file, "OtherwiseExported", "--size", "n_layers=1")
    assert code == Exit.DOES_NOT_CONFORM
    assert "source    FAILS" in said
    assert not file.exists()
    code, said = awkward(file, "OtherwiseExported", "--size", "n_layers=1", "--force")
    assert code == Exit.DOES_NOT_CONFORM
    assert "is written, though wrong (source, program)" in said
    assert file.is_file()


def test_a_cache_that_the_map_does_not_have_is_refused(tmp_path: Path) -> None:
    needs_torch()
    code, said = awkward(tmp_path / "model.onnx", "GPT", "--cache")
    assert code == Exit.NOTHING_GRADABLE
    assert "the map says nothing of a cache" in said
    assert list(tmp_path.iterdir()) == []


def test_without_onnxscript_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    absent = tmp_path / "absent"
    absent.mkdir()
    (absent / "onnxscript.py").write_text(
        "raise ModuleNotFoundError('none', name='onnxscript')", encoding="utf-8"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(absent), os.environ.get("PYTHONPATH", "")]))
    code, said = awkward(tmp_path / "out" / "model.onnx", "GPT")
    assert code == Exit.NOTHING_GRADABLE
    assert "pip install onnxscript" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["numpy_reference"], "is no PyTorch module"),
        (["hf:LlamaForCausalLM", "--mistake", "no-mask"], "--mistake is of the program"),
        (["program", "--variant", "llama", "--python", "python3"], "--python is of modules"),
        (["pytorch"], "pytorch needs a module"),
        (["hf:LlamaForCausalLM", "--python", "/nowhere/python"], "No such file"),
    ],
)
def test_bad_input(tmp_path: Path, words: list[str], said: str) -> None:
    code, output = export(tmp_path / "model.onnx", *words)
    assert code == Exit.USAGE
    assert said in output
