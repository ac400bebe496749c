"""A module exported with the weights of its checkpoint: those and no others are in the file, or it says why not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from conformance.cli import Exit, main

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
MODELS = Path(__file__).parent / "models"
SIZES = {"vocab_size": 61, "n_embd": 32, "n_head": 4, "n_layer": 2, "block_size": 160, "hidden": 48}


def export(file: Path, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(
        main, ["export", *words, "-o", str(file), "--report", str(file.parent / "report")]
    )
    return result.exit_code, result.output


def own_gpt(file: Path, *more: str) -> tuple[int, str]:
    return export(
        file, "pytorch", f"{MODELS / 'awkward.py'}:GPT", "--map", str(MODELS / "awkward.yaml"), *more
    )


def module() -> Any:
    sys.path.insert(0, str(MODELS))
    try:
        import awkward
    finally:
        sys.path.remove(str(MODELS))
    torch.manual_seed(1)
    return awkward.GPT(**SIZES)


def numbers(file: Path) -> list[Any]:
    """The arrays of a file's weights."""
    import onnx

    return [onnx.numpy_helper.to_array(w) for w in onnx.load(str(file)).graph.initializer]


def holds(arrays: list[Any], wanted: Any) -> bool:
    """Whether an array, or its transpose, is among them."""
    return any(np.array_equal(a, w) for a in arrays for w in (wanted, wanted.T) if a.shape == w.shape)


def test_the_file_has_the_weights_of_a_training_checkpoint(tmp_path: Path) -> None:
    trained = module().state_dict()
    checkpoint = tmp_path / "step-3.pt"
    # As a script of one's own may keep them: wrapped, in a dictionary, beside the step.
    torch.save({"model": {f"module.{name}": value for name, value in trained.items()}, "step": 3}, checkpoint)
    file = tmp_path / "gpt.onnx"
    code, said = own_gpt(file, "--weights", str(checkpoint), "--size", "n_heads=4")
    assert code == Exit.CONFORMS, said
    assert "weights   " in said
    assert "as the module at 2 sizes" in said
    assert "as the program in float64 at 2 sizes" in said
    arrays = numbers(file)
    for name in ("tokens.weight", "blocks.1.qkv.weight", "blocks.0.up.bias", "head.weight"):
        assert holds(arrays, trained[name].numpy()), name


def test_a_folder_of_transformers_is_exported_with_its_weights(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(2)
    sizes = {"vocab_size": 53, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    trained = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **heads))
    trained.save_pretrained(tmp_path / "llama")
    file = tmp_path / "llama.onnx"
    code, said = export(file, f"hf:{tmp_path / 'llama'}", "--cache")
    assert code == Exit.CONFORMS, said
    assert holds(numbers(file), trained.model.layers[0].mlp.up_proj.weight.detach().numpy())
    # The architecture alone is a small model with random weights.
    code, said = export(file, f"hf:{tmp_path / 'llama' / 'config.json'}", "--cache")
    assert code == Exit.CONFORMS, said
    assert "weights   " not in said
    assert not holds(numbers(file), trained.model.layers[0].mlp.up_proj.weight.detach().numpy())


def saved(folder: Path, how: str) -> Path:
    """A checkpoint that cannot be taken."""
    held = dict(module().state_dict())
    file = folder / f"{how}.pt"
    if how == "names":
        held["blocks.0.extra"] = torch.ones(2)
        del held["ln_f.bias"]
    if how == "text":
        file.write_text("not a checkpoint", encoding="utf-8")
    elif how == "module":
        torch.save(module(), file)
    elif how == "nested":
        torch.save({"optimizer": {"lr": 1.0}, "epoch": 2}, file)
    elif how == "folder":
        file.mkdir()
        (file / "config.json").write_text(json.dumps({}), encoding="utf-8")
    elif how != "absent":
        torch.save(held, file)
    return file


@pytest.mark.parametrize(
    ("how", "more", "said"),
    [
        ("names", ["n_heads=4"], "it lacks ln_f.bias; the module has no blocks.0.extra"),
        ("sizes", ["n_heads=4", "d_ff=20"], "blocks.0.up.weight is [48, 32] and [20, 32] in the module"),
        ("heads", [], "pass --size n_heads=N"),
        ("text", ["n_heads=4"], "it is no file of PyTorch"),
        ("module", ["n_heads=4"], "it holds a awkward.GPT"),
        ("nested", ["n_heads=4"], "holds a dict with optimizer, epoch, no state dict"),
        ("absent", ["n_heads=4"], "there is no such file"),
        ("folder", ["n_heads=4"], "holds none of model.safetensors"),
    ],
)
def test_a_checkpoint_that_is_not_the_modules_is_refused_in_one_message(
    how: str, more: list[str], said: str, tmp_path: Path
) -> None:
    words = [word for size in more for word in ("--size", size)]
    code, output = own_gpt(tmp_path / "gpt.onnx", "--weights", str(saved(tmp_path, how)), *words)
    assert code == Exit.USAGE, output
    assert said in output
    assert output.count("\n") == 1, output
    assert not list(tmp_path.glob("gpt.onnx*"))


def test_the_program_takes_no_weights(tmp_path: Path) -> None:
    code, output = export(tmp_path / "x.onnx", "program", "--variant", "llama", "--weights", "x.pt")
    assert code == Exit.USAGE
    assert "--weights is of modules" in output
