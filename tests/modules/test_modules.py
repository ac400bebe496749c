"""Modules graded as they are, by maps: every protocol of a cache, every transform, and the maps that come with the tool."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from conformance.cli import main
from conformance.maps.target import ready_maps

MODELS = Path(__file__).resolve().parent / "models"


def run(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["run", *words, "-o", str(folder)])


def lines(folder: Path, kind: str = "verdict") -> list[dict[str, object]]:
    text = (folder / "results.jsonl").read_text(encoding="utf-8")
    return [line for line in map(json.loads, text.splitlines()) if line["kind"] == kind]


def graded(folder: Path, module: str, map_file: Path, *options: str) -> Result:
    return run(folder, "pytorch", f"{MODELS / module}", "--map", str(map_file), *options)


@pytest.mark.parametrize(
    ("module", "map_name", "decode"),
    [
        ("gpt.py:GPT", "gpt", False),
        ("llama.py:Returned", "llama_returned", True),
        ("llama.py:InPlace", "llama_object", True),
        ("llama.py:Inside", "llama_inside", True),
        ("llama.py:Started", "llama_start", True),
        ("llama.py:Returned", "llama_python", True),
        ("vectors.py:Vectors", "vectors", False),
    ],
)
def test_a_right_module_conforms(module: str, map_name: str, decode: bool, tmp_path: Path) -> None:
    result = graded(tmp_path, module, MODELS / f"{map_name}.yaml")
    assert result.exit_code == 0, result.output
    passed = {line["rung"] for line in lines(tmp_path) if line["verdict"] == "pass"}
    assert passed == ({"model", "decode"} if decode else {"model"})


def test_positions_that_nothing_reads_are_not_graded(tmp_path: Path) -> None:
    """A module that takes vectors and turns them by itself is not wrong about positions that it never gets."""
    result = graded(tmp_path, "vectors.py:Vectors", MODELS / "vectors.yaml", "--select", "q005.positions")
    assert result.exit_code == 3, result.output
    assert {line["verdict"] for line in lines(tmp_path)} == {"unsupported"}
    assert "no positions beside them" in result.output


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", sorted(n for n in ready_maps() if n.startswith("transformers:")))
def test_a_model_of_transformers_conforms(name: str, attention: str, tmp_path: Path) -> None:
    result = run(tmp_path, f"hf:{name.partition(':')[2]}", f"attn_implementation={attention}")
    assert result.exit_code == 0, result.output
    (begun,) = lines(tmp_path, "run")
    assert begun["dtypes"] == ["float32", "bfloat16", "float16"]
    assert {line["rung"] for line in lines(tmp_path) if line["verdict"] == "pass"} == {"model", "decode"}


@pytest.mark.parametrize("name", sorted(n for n in ready_maps() if not n.startswith("transformers:")))
def test_a_module_of_another_library_conforms(name: str, tmp_path: Path) -> None:
    result = run(tmp_path, "pytorch", name)
    assert result.exit_code == 0, result.output


EDITS = {
    "a parameter without an entry": (
        "h.{i}.mlp.2.bias: layers.{i}.ffn.b_2",
        "h.{i}.mlp.3.bias: layers.{i}.ffn.b_2",
        [
            "gpt.yaml, line 6: ",
            "nothing sets",
            "h.1.mlp.2.bias [24]",
            "nothing takes",
            "layers.1.ffn.b_2 [24]",
        ],
    ),
    "a missing transpose": (
        "transpose(layers.{i}.ffn.w_1)",
        "layers.{i}.ffn.w_1",
        ["gpt.yaml, line 17: ", "h.0.mlp.0.weight has shape [20, 24]", "gives it [24, 20]", "transpose(…)"],
    ),
    "an unknown transform": ("transpose(", "tronspose(", ["gpt.yaml, line 11: ", "'tronspose'", "by_head"]),
    "an expression that ends too early": (
        "transpose(layers.{i}.ffn.w_1)",
        '"transpose(layers.{i}.ffn.w_1"',
        ["gpt.yaml, line 17: ", "lacks a closing parenthesis"],
    ),
    "an argument that the config lacks": (
        "n_head: = n_heads",
        "heads: = n_heads",
        ["gpt.yaml, line 3: ", "GPTConfig does not take what the map gives it", "'heads'"],
    ),
    "an unknown field": ("= d_model", "= d_modl", ["gpt.yaml, line 5: ", "'d_modl'", "d_model"]),
    "an unknown class": ("class: GPTConfig", "class: GPTConfg", ["there is no 'GPTConfg'", "GPTConfig"]),
    "an argument that forward lacks": (
        "idx",
        "tokens",
        ["gpt.yaml, line 24: ", "forward(idx, targets=None)"],
    ),
    "a result that is not there": ("returns: 0", "returns: 3", ["gpt.yaml, line 25: ", "tuple of 2", "no 3"]),
    "a result that is no tensor": (
        "returns: 0",
        "returns: 1",
        ["gpt.yaml, line 25: ", "NoneType", "not a tensor"],
    ),
    "a tied parameter with two values": (
        "head.weight: embed",
        "head.weight: zeros",
        ["gpt.yaml, line 23: ", "wte.weight", "tied"],
    ),
    "a tap of no submodule": (
        "returns: 0",
        'returns: 0\ntaps: {"layers.{i}.norm1": "h.{i}.ln_9"}',
        ["gpt.yaml, line 26: ", "ln_9"],
    ),
    "a device that is not there": ("returns: 0", "returns: 0\ndevice: cuda", ["gpt.yaml, line 26: ", "cuda"]),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_fault_of_the_map_is_said_once_with_its_line(name: str, tmp_path: Path) -> None:
    old, new, said = EDITS[name]
    text = (MODELS / "gpt.yaml").read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "gpt.yaml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    result = graded(tmp_path / "report", "gpt.py:GPT", path)
    assert result.exit_code == 3, result.output
    for part in said:
        assert part in result.output
    assert "Traceback" not in result.output


FORMS = {
    "an unknown key": ("returns: 0", "return: 0", ["gpt.yaml:25: ", "'return'", "returns"]),
    "no tokens": ("tokens: idx", "x: idx", ["gpt.yaml:24: ", "tokens or embeddings"]),
    "a cache without its argument": (
        "returns: 0",
        "cache: {protocol: returned, result: 1}",
        ["gpt.yaml:25: ", "needs 'argument'"],
    ),
    "a cache inside that never begins": ("returns: 0", "cache: {protocol: inside}", ["'reset'", "'start'"]),
    "an unknown protocol": ("returns: 0", "cache: {protocol: magic}", ["gpt.yaml:25: ", "returned"]),
    "an unknown variant": ("base: gpt2", "base: gpt3", ["base 'gpt3'", "llama"]),
}


@pytest.mark.parametrize("name", FORMS)
def test_what_is_no_map_is_refused_before_anything_runs(name: str, tmp_path: Path) -> None:
    old, new, said = FORMS[name]
    path = tmp_path / "gpt.yaml"
    path.write_text((MODELS / "gpt.yaml").read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    result = graded(tmp_path / "report", "gpt.py:GPT", path)
    assert result.exit_code == 2, result.output
    for part in said:
        assert part in result.output


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["pytorch"], 2, "needs a module"),
        (["pytorch", "gpt.py"], 2, "names no module"),
        (["pytorch", str(MODELS / "gpt.py:GPT")], 2, "--inspect"),
        (["pytorch", "nowhere.py:GPT", "--map", str(MODELS / "gpt.yaml")], 3, "nowhere.py does not exist"),
        (
            ["pytorch", "no_such_package:GPT", "--map", str(MODELS / "gpt.yaml")],
            3,
            "no module 'no_such_package'",
        ),
        (["hf:GPT3LMHeadModel"], 2, "transformers:GPT2LMHeadModel"),
        (["hf:GPT2LMHeadModel", "eager"], 2, "name=value"),
        (["hf:./no/config.json"], 3, "cannot be read"),
        ([str(MODELS / "gpt.py"), "--map", str(MODELS / "gpt.yaml")], 2, "takes none"),
    ],
)
def test_words_that_name_nothing(words: list[str], status: int, said: str, tmp_path: Path) -> None:
    result = run(tmp_path, *words)
    assert result.exit_code == status, result.output
    assert said in result.output


def test_what_the_module_raises_is_graded_and_placed(tmp_path: Path) -> None:
    text = (MODELS / "gpt.py").read_text(encoding="utf-8")
    path = tmp_path / "gpt.py"
    path.write_text(text.replace("logits = self.head(", "logits = self.heads("), encoding="utf-8")
    result = run(tmp_path / "report", "pytorch", f"{path}:GPT", "--map", str(MODELS / "gpt.yaml"))
    assert result.exit_code == 1, result.output
    red = next(line for line in lines(tmp_path / "report") if line["verdict"] == "error")
    assert red["where"]["file"] == str(path)
    assert "self.heads(" in red["where"]["text"]


def test_a_map_that_exchanges_two_matrices_is_no_shared_matrix(tmp_path: Path) -> None:
    """Taps by hooks show keys made with Wq; that they are all one matrix would be a wrong name."""
    old = "concat(layers.{i}.attention.w_q, layers.{i}.attention.w_k"
    text = ready_maps()["transformers:GPT2LMHeadModel"].read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "exchanged.yaml"
    path.write_text(
        text.replace(old, "concat(layers.{i}.attention.w_k, layers.{i}.attention.w_q"), encoding="utf-8"
    )
    result = run(
        tmp_path, "pytorch", "transformers:GPT2LMHeadModel", "--map", str(path), "--dtype", "float32"
    )
    assert result.exit_code == 1, result.output
    named = {entry["mistake"] for line in lines(tmp_path) for entry in line["diagnosis"]}
    assert "projections-shared" not in named


def test_the_snippet_of_a_failure_reproduces_it(tmp_path: Path) -> None:
    import subprocess
    import sys

    path = tmp_path / "gpt.yaml"
    text = (MODELS / "gpt.yaml").read_text(encoding="utf-8")
    path.write_text(
        text.replace("w_q, layers.{i}.attention.w_k", "w_k, layers.{i}.attention.w_q"), encoding="utf-8"
    )
    assert graded(tmp_path, "gpt.py:GPT", path).exit_code == 1
    red = next(line for line in lines(tmp_path) if line["claim"] == "q005.logits" and line["reproduce"])
    done = subprocess.run(
        [sys.executable, "-c", red["reproduce"]], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    got = float(done.stdout.partition("tensor(")[2].partition(",")[0])
    assert got == pytest.approx(red["evidence"]["got"], rel=1e-3)


@pytest.mark.parametrize("module", ["gpt.py:GPT", "llama.py:Returned"])
def test_a_first_map_runs(module: str, tmp_path: Path) -> None:
    path = tmp_path / "first.yaml"
    words = ["new", str(path), "--framework", "torch", "--inspect", str(MODELS / module)]
    made = CliRunner().invoke(main, words)
    assert made.exit_code == 0, made.output
    text = path.read_text(encoding="utf-8")
    assert "# GUESS" in text
    result = run(tmp_path, "pytorch", str(MODELS / module), "--map", str(path))
    assert result.exit_code == (0 if module.startswith("gpt") else 1), result.output


def test_a_first_map_of_a_module_with_a_size_of_its_own(tmp_path: Path) -> None:
    """It is graded where its sizes are the cases'; without `refuse` the others are no fault of it either."""
    path = tmp_path / "first.yaml"
    module = str(MODELS / "fixed.py:GPT")
    made = CliRunner().invoke(main, ["new", str(path), "--framework", "torch", "--inspect", module])
    assert made.exit_code == 0, made.output
    text = path.read_text(encoding="utf-8")
    for line in ("rope_layout: interleaved", "ffn: gelu_tanh", "when: = d_model != 24"):
        assert line in text
    before, _, after = text.partition("  refuse:\n")
    path.write_text(before + after.partition("\n")[2].partition("\n")[2], encoding="utf-8")
    for _ in range(2):
        result = run(tmp_path, "pytorch", module, "--map", str(path), "--select", "q005.*")
        assert result.exit_code == 0, result.output
        assert {v["verdict"] for v in lines(tmp_path)} == {"pass", "unsupported"}
        path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("module", "status", "said"),
    [
        ("gpt.py:GPX", 3, "there is no 'GPX'"),
        ("gpt.py:Block", 3, "raise"),
        ("nope.py:GPT", 3, "does not exist"),
    ],
)
def test_a_module_that_cannot_be_inspected(module: str, status: int, said: str, tmp_path: Path) -> None:
    path = tmp_path / "first.yaml"
    words = ["new", str(path), "--framework", "torch", "--inspect", str(MODELS / module)]
    made = CliRunner().invoke(main, words)
    assert made.exit_code == status
    assert said in made.output
    assert not path.exists()
