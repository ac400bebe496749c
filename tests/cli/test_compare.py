"""Two targets on the same cases: agreement, the first tensor at which they part, and bad input on either side."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import FEW, GOOD_RMS_NORM, GOOD_SOFTMAX, adapter, conformance

ZOO = Path(__file__).parents[1] / "zoo"
RIGHT, WRONG = ZOO / "right", ZOO / "wrong"

LAYERED = """
variant = "minimal"

class Model:
    def __init__(self, config, params):
        self.config, self.params = config, params

    def forward(self, tokens, tap=lambda name, tensor: None):
        c, p = self.config, self.params
        x = p["embed"][tokens]
        for i in range(c.n_layers):
            n = f"layers.{i}."
            h = norm(x, p, n + "norm1", c.norm_eps)
            q, k, v = (
                (h @ p[n + "attention.w_" + w]).reshape(*x.shape[:2], c.n_heads, -1).swapaxes(1, 2)
                for w in "qkv"
            )
            scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
            tap(n + "scores", scores)
            seen = np.tri(x.shape[1], dtype=bool)
            weights = np.exp(np.where(seen, scores - scores.max(-1, keepdims=True), -np.inf))
            weights = weights / weights.sum(-1, keepdims=True)
            tap(n + "weights", weights)
            x = x + (weights @ v).swapaxes(1, 2).reshape(x.shape) @ p[n + "attention.w_o"]
            h = norm(x, p, n + "norm2", c.norm_eps)
            x = x + np.maximum(h @ p[n + "ffn.w_1"], 0) @ p[n + "ffn.w_2"]
        return norm(x, p, "final_norm", c.norm_eps) @ p["lm_head"]


def norm(x, p, name, eps):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * p[name + ".weight"] + p[name + ".bias"]
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def compared(*args: object, status: int) -> list[dict[str, Any]]:
    """The lines of a comparison that ends with a status."""
    result = conformance("compare", *args, "-o", "out")
    assert result.exit_code == status, result.output
    return [json.loads(line) for line in Path("out/compare.jsonl").read_text(encoding="utf-8").splitlines()]


def of_kind(lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["kind"] == kind]


# -- what they make of the same -------------------------------------------------------------------


def test_a_target_agrees_with_itself():
    lines = compared(
        "numpy_reference", "numpy_reference", "--variant", "llama", "--dtype", "float32", status=0
    )
    assert lines[0]["kind"] == "compare"
    assert lines[-1]["kind"] == "end"
    assert lines[-1]["agree"]
    assert {line["margin"] for line in of_kind(lines, "tensor")} == {0.0}
    rungs = {line["rung"] for line in of_kind(lines, "case")}
    assert rungs == {"operation", "layer", "model", "decode"}
    # Every tap that both show, and every output.
    assert {"layers.1.scores", "layers.0.k_rot", "logits"} <= {
        line["tensor"] for line in of_kind(lines, "tensor")
    }


def test_a_wrong_one_agrees_with_itself_even_where_it_makes_nan(tmp_path):
    body = "def softmax(x, axis):\n    e = np.exp(x)\n    return e / e.sum(axis=axis, keepdims=True)\n"
    file = adapter(tmp_path, body)
    lines = compared(file, file, status=0)
    assert set(lines[-1]["counts"]) == {"agree"}
    assert any(line["off"] == ["Infinity", "Infinity"] for line in of_kind(lines, "tensor"))


def test_two_right_ones_agree_whatever_they_are_written_like():
    args = ("--dtype", "float32", "--select", "rung:model,rung:decode")
    lines = compared("numpy_reference", RIGHT / "einsum_llama.py", *args, status=0)
    assert 0 < lines[-1]["worst"] < 1
    assert any(line["call"] > 0 for line in of_kind(lines, "tensor"))


def test_the_first_tensor_at_which_they_part_is_the_one_at_fault():
    result = conformance(
        "compare", "numpy_reference", WRONG / "llama_no_scale.py", "-o", "out", "--select", "q005.logits"
    )
    assert result.exit_code == 1
    lines = [json.loads(line) for line in Path("out/compare.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines[-1]["first"] == {"case": "model-plain", "tensor": "layers.0.scores"}
    tensors = [t for t in of_kind(lines, "tensor") if t["case"] == "model-plain"]
    before = tensors[: [t["tensor"] for t in tensors].index("layers.0.scores")]
    assert before
    assert {t["verdict"] for t in before} == {"agree"}
    first = tensors[len(before)]
    assert first["program"] == pytest.approx(first["a"], abs=1e-5)
    assert first["b"] == pytest.approx(first["a"] * 6**0.5, rel=1e-5)
    assert first["off"][0] < 1 < first["off"][1]
    assert "A and B part" in result.stdout
    assert "A is with it" in result.stdout


def test_without_taps_in_one_of_them_outputs_are_compared_alone(tmp_path):
    tapped = adapter(tmp_path, LAYERED, "tapped.py")
    silent = adapter(
        tmp_path,
        LAYERED.replace(", tap=lambda name, tensor: None", "").replace(
            "            tap(", "            (lambda *_: None)("
        ),
        "silent.py",
    )
    lines = compared(tapped, silent, "--select", "q005.logits", status=0)
    assert {line["tensor"] for line in of_kind(lines, "tensor")} == {"logits"}
    lines = compared(tapped, tapped, "--select", "q005.logits", status=0)
    assert {"layers.0.scores", "layers.1.weights"} <= {line["tensor"] for line in of_kind(lines, "tensor")}


def test_a_model_that_gives_its_last_logits_is_compared_with_one_that_gives_all():
    lines = compared(
        "numpy_reference", RIGHT / "last_logits_llama.py", "--select", "q005.logits,rung:decode", status=0
    )
    assert "logits" in {line["tensor"] for line in of_kind(lines, "tensor")}


def test_the_lower_of_two_dtypes_says_how_much_is_little():
    pytest.importorskip("torch")
    file = Path(__file__).parents[1] / "torch_models" / "torch_functional.py"
    args = (file, file, "--select", "q008.rms-norm")
    lines = compared(*args, "--dtype", "float32", "--dtype", "bfloat16", status=0)
    assert lines[0]["dtypes"] == [["float32", "bfloat16"]]
    assert 0 < lines[-1]["worst"] < 1
    rough = {line["case"]: line["tolerance"] for line in of_kind(lines, "tensor")}
    lines = compared(*args, "--dtype", "float32", status=0)
    fine = {line["case"]: line["tolerance"] for line in of_kind(lines, "tensor")}
    assert all(rough[case] > 1000 * fine[case] for case in fine)


def test_frameworks_are_compared():
    pytest.importorskip("torch")
    functions = Path(__file__).parents[1] / "torch_models" / "torch_functional.py"
    lines = compared("numpy_reference", functions, "--dtype", "float32", "--variant", "gpt2", status=0)
    assert (lines[0]["a"]["framework"], lines[0]["b"]["framework"]) == ("numpy", "torch")
    assert of_kind(lines, "tensor")


def test_a_bundled_adapter_with_arguments_is_one_word():
    pytest.importorskip("torch")
    course = Path(__file__).parents[1] / "cs336" / "solution" / "tests" / "adapters.py"
    args = ("--variant", "cs336", "--select", "q005.logits,q007.softmax")
    lines = compared("numpy_reference", f"cs336 {course}", *args, status=0)
    assert lines[0]["b"]["target"] == f"cs336 {course}"
    assert lines[0]["variants"] == ["cs336"]


# -- exceptions -----------------------------------------------------------------------------------

RAISES = "\ndef softmax(x, axis):\n    raise {error}('no')\n"


def test_one_that_raises_is_a_difference_with_its_line(tmp_path):
    good, bad = (
        adapter(tmp_path, name="good.py"),
        adapter(tmp_path, RAISES.format(error="ValueError"), "bad.py"),
    )
    lines = compared(good, bad, "--select", "q007.softmax", status=1)
    case = of_kind(lines, "case")[0]
    assert case["verdict"] == "part"
    assert case["says"]["en"].startswith("B: it raised ValueError: no")
    assert (case["where"]["file"], case["where"]["line"]) == (str(bad), 4)


def test_both_raising_the_same_is_no_difference(tmp_path):
    one = adapter(tmp_path, RAISES.format(error="ValueError") + GOOD_RMS_NORM, "one.py")
    lines = compared(
        one,
        adapter(tmp_path, RAISES.format(error="ValueError") + GOOD_RMS_NORM, "two.py"),
        "--select",
        FEW,
        status=0,
    )
    assert {line["verdict"] for line in of_kind(lines, "case")} == {"both raise", "agree"}
    lines = compared(
        one,
        adapter(tmp_path, RAISES.format(error="KeyError"), "three.py"),
        "--select",
        "q007.softmax",
        status=1,
    )
    assert {line["verdict"] for line in of_kind(lines, "case")} == {"part"}


def test_another_shape_is_a_difference(tmp_path):
    good = adapter(tmp_path, name="good.py")
    flat = adapter(tmp_path, "def softmax(x, axis):\n    return x.reshape(-1)[:1]\n", "flat.py")
    lines = compared(good, flat, "--select", "q007.softmax", status=1)
    says = of_kind(lines, "case")[0]["says"]
    assert "in B" in says["en"]
    assert "B 中" in says["zh"]


# -- bad input ------------------------------------------------------------------------------------


def refused(*args: object, status: int) -> str:
    result = conformance("compare", *args)
    assert result.exit_code == status, result.output
    assert result.stdout == ""
    return result.stderr


def test_a_file_that_is_missing_on_either_side(tmp_path):
    adapter(tmp_path)
    assert refused("mine.py", "yours.py", status=3) == "target: B, yours.py does not exist\n"
    assert refused("yours.py", "mine.py", status=3) == "target: A, yours.py does not exist\n"
    assert "A, 'numpy_referense' is neither" in refused("numpy_referense", "mine.py", status=2)
    assert 'B, "cs336: No closing quotation' in refused("mine.py", '"cs336', status=2)


def test_a_file_that_cannot_be_imported_on_either_side(tmp_path):
    adapter(tmp_path)
    adapter(tmp_path, "import a_library_that_nobody_has\n", "broken.py")
    assert refused("mine.py", "broken.py", status=3).startswith(
        "target: B, broken.py: it raised ModuleNotFoundError"
    )
    assert refused("broken.py", "mine.py", status=3).startswith(
        "target: A, broken.py: it raised ModuleNotFoundError"
    )


def test_nothing_in_common(tmp_path):
    adapter(tmp_path, GOOD_SOFTMAX, "one.py")
    adapter(tmp_path, GOOD_RMS_NORM, "two.py")
    result = conformance("compare", "one.py", "two.py")
    assert result.exit_code == 3
    assert "nothing that both offer" in result.stderr


def test_variants_that_differ_leave_what_needs_none(tmp_path):
    adapter(tmp_path, 'variant = "llama"\n' + GOOD_SOFTMAX, "one.py")
    adapter(tmp_path, 'variant = "gpt2"\n' + GOOD_SOFTMAX, "two.py")
    result = conformance("compare", "one.py", "two.py", "--lang", "zh")
    assert result.exit_code == 0
    assert "没有共同的变体（A：llama；B：gpt2）" in result.stdout
    assert "A 与 B 一致" in result.stdout


def test_too_many_dtypes(tmp_path):
    adapter(tmp_path)
    dtypes = ("--dtype", "float32") * 3
    assert "--dtype is given 3 times" in refused("mine.py", "mine.py", *dtypes, status=2)


def test_an_unknown_variant_or_claim(tmp_path):
    adapter(tmp_path)
    assert "--variant is 'lama'" in refused("mine.py", "mine.py", "--variant", "lama", status=2)
    assert "no claim is called" in refused("mine.py", "mine.py", "--select", "q007.softmacks", status=2)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_with_130_and_keeps_what_was_compared(tmp_path):
    adapter(tmp_path, GOOD_RMS_NORM + "import time\ndef softmax(x, axis):\n    time.sleep(60)\n")
    command = [
        sys.executable,
        "-m",
        "conformance",
        "compare",
        "mine.py",
        "mine.py",
        "--timeout",
        "60",
        "-o",
        "out",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    file, until = Path("out/compare.jsonl"), time.monotonic() + 60
    while not file.is_file() or '"kind": "case"' not in file.read_text(encoding="utf-8"):
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert out == ""
    assert err.strip() == "Interrupted; what was compared so far is in out/compare.jsonl"
