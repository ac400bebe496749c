"""What is emitted is graded as a file that nobody knows: right ones conform, wrong ones are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.exporting.files import write
from conformance.exporting.made import Model
from conformance.exporting.program_export import export_program
from conformance.locations import bundled
from conformance.pack.load import load_pack
from conformance.pack.model import Pack
from conformance.results.store import Results, Writer, read_results
from conformance.runner import Options, run
from conformance.targets import resolve_target


@pytest.fixture(scope="module")
def pack() -> Pack:
    return load_pack(bundled("spec") / "forward-pass")


def graded(made: Model, cache: bool, folder: Path) -> Results:
    model, steps = export_program(made, cache, "float32", 18)
    assert all(step.passed for step in steps), [str(step) for step in steps]
    file = folder / "model.onnx"
    write(model, file, external=False)
    with Writer(folder / "report") as writer:
        run(made.pack, resolve_target([str(file)]), Options(), writer)
    return read_results(folder / "report")


def end_of(results: Results) -> Any:
    assert results.end is not None
    return results.end


@pytest.mark.parametrize("cache", [False, True], ids=["plain", "cache"])
@pytest.mark.parametrize("variant", ["minimal", "gpt2", "llama"])
def test_what_is_emitted_conforms(pack: Pack, variant: str, cache: bool, tmp_path: Path) -> None:
    results = graded(Model(pack, pack.variants[variant], {}), cache, tmp_path)
    assert results.run["variants"] == [variant], "the variant is not read off the graph"
    assert end_of(results)["conforms"] is True
    rungs = {line["rung"] for line in results.of_verdict("pass")}
    assert rungs == ({"model", "graph", "decode"} if cache else {"model", "graph"})


def test_a_file_of_one_layer_is_graded(pack: Pack, tmp_path: Path) -> None:
    results = graded(Model(pack, pack.variants["llama"], {"n_layers": 1}), False, tmp_path)
    assert end_of(results)["conforms"] is True


@pytest.mark.parametrize(
    ("mistake", "variant"),
    [
        ("scale-by-model-width", "llama"),
        ("no-scale", "llama"),
        ("no-mask", "minimal"),
        ("mask-top-left", "gpt2"),
        ("gqa-tile", "llama"),
        ("rope-other-layout", "llama"),
        ("rope-exponent-without-two", "llama"),
        ("cache-forgotten", "minimal"),
        ("current-token-excluded", "llama"),
        ("one-layer-shared", "gpt2"),
        ("scale-by-head-width", "llama"),
    ],
)
def test_a_mistake_in_a_file_is_named(pack: Pack, mistake: str, variant: str, tmp_path: Path) -> None:
    made = Model(pack, pack.variants[variant], {}, pack.program.mistakes[mistake])
    end = end_of(graded(made, True, tmp_path))
    assert end["conforms"] is False
    named = {name for cause in end["causes"] for name in cause["mistakes"]}
    assert mistake in named
