"""How an error runs along layers and positions, as a run stores it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance import cli
from conformance.results.schema import faults

ROOT = Path(__file__).resolve().parents[2]
WRONG = ROOT / "tests" / "zoo" / "wrong"


def profiles(target, select, folder):
    """(claim, case) to the profiles of a run's verdicts."""
    CliRunner().invoke(
        cli.main,
        [
            "run",
            str(target),
            "--variant",
            "llama",
            "--dtype",
            "float32",
            "--select",
            select,
            "-q",
            "-o",
            str(folder),
        ],
    )
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [fault for line in lines for fault in faults(line)] == []
    assert lines[-1]["faults"] == []
    return {(line["claim"], line["case"]): line["profiles"] for line in lines if line.get("profiles")}


def worst(value):
    return float(str(value).replace("Infinity", "inf"))


def test_a_cache_that_forgets_positions_is_right_in_the_first_call_and_in_one_call(tmp_path):
    found = profiles(WRONG / "llama_position_reset_in_decode.py", "q005.decode-after-prefill", tmp_path)
    ((profile,),) = found.values()
    assert (profile["over"], profile["tensors"], profile["calls"]) == ("position", ["logits"], [4, 1, 1])
    margins = list(map(worst, profile["margins"]))
    assert max(margins[:4]) <= 1 < 1000 < min(margins[4:])
    assert max(map(worst, profile["at_once"])) <= 1


def test_a_stage_that_is_wrong_is_wrong_in_every_layer_and_the_model_off_from_the_first(tmp_path):
    found = profiles(WRONG / "llama_no_scale.py", "q005.logits,q007.scores-in-every-layer", tmp_path)
    (whole,) = found["q005.logits", "model-plain"]
    assert (whole["over"], whole["local"]) == ("layer", False)
    assert whole["tensors"] == ["layers.0.y", "layers.1.y", "logits"]
    assert min(map(worst, whole["margins"])) > 1
    (own,) = found["q007.scores-in-every-layer", "model-plain"]
    assert (own["tensors"], own["local"]) == (["layers.0.scores", "layers.1.scores"], True)
    assert min(map(worst, own["margins"])) > 1


def test_of_a_right_model_one_profile_shows_that_every_layer_is(tmp_path):
    found = profiles(
        ROOT / "adapters" / "numpy_reference.py", "q005.logits,q005.positions,q005.decode-chunks", tmp_path
    )
    ((key, (profile,)),) = found.items()
    assert key[0] == "q005.logits"
    assert max(map(worst, profile["margins"])) <= 1


def test_what_shows_no_tensor_has_no_profile_of_its_layers(tmp_path):
    assert profiles(WRONG / "llama_gate_and_up_swapped.py", "q005.logits", tmp_path) == {}


@pytest.mark.parametrize("n", [3])
def test_only_so_many_are_measured(tmp_path, n):
    found = profiles(WRONG / "llama_no_scale.py", "q005.*", tmp_path)
    for over in ("layer", "position"):
        assert sum(p["over"] == over for several in found.values() for p in several) == n
