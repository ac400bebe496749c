"""No false alarm on what nobody here wrote: the modules of `torch.nn` and the models of `transformers`.

Each file beside this one puts the contract's parameters into a library's module and calls it. Two
seeds, one of them fresh in every run; `benchmarks/verdicts.py --adapters torch` takes fifty.
"""

from __future__ import annotations

import importlib.util
import secrets
from pathlib import Path

import pytest
from zoo.zoo_grading import Zoo, broken, told

HERE = Path(__file__).resolve().parent
FILES = sorted(path for path in HERE.glob("*.py") if not path.name.startswith(("_", "test_", "conftest")))
SEEDS = [0, secrets.randbelow(2**31)]
SEEDS_AND_FILES = [
    # One process works out what a seed's cases make, and then grades all files. The fresh seed is in
    # the message of a failure and not in the name, which has to be the same in all processes.
    pytest.param(
        i,
        path,
        id=f"{'zero' if i == 0 else 'fresh'}-{path.stem}",
        marks=pytest.mark.xdist_group(f"torch-{i}"),
    )
    for i in range(len(SEEDS))
    for path in FILES
]
LIBRARIES = ("torch", "transformers")


@pytest.fixture(autouse=True)
def libraries() -> None:
    for name in LIBRARIES:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


def test_the_libraries_are_there() -> None:
    names = " ".join(path.stem for path in FILES)
    for part in (
        "functional",
        "multi_head_attention",
        "encoder_layer",
        "transformer",
        "gpt2",
        "llama",
        "mistral",
        "qwen2",
        "qwen3",
        "gpt_neox",
        "gemma",
    ):
        assert part in names


@pytest.mark.parametrize(("number", "path"), SEEDS_AND_FILES)
def test_a_library_passes_all_that_it_offers(number: int, path: Path, zoo: Zoo) -> None:
    seed = SEEDS[number]
    verdicts = zoo.verdicts(path, seed=seed)
    red = list(broken(verdicts))
    assert not red, f"seed {seed}\n{told(red)}"
    for dtype in {v.dtype for v in verdicts}:
        assert any(
            v.judgement.verdict == "pass" and v.level == "MUST" and v.judgement.margin
            for v in verdicts
            if v.dtype == dtype
        ), dtype


def test_padding_on_the_left_makes_torch_nn_transformer_nan(zoo: Zoo) -> None:
    """The library's fault, and found as such: its logits of real tokens are NaN."""
    verdicts = zoo.verdicts(HERE / "_torch_transformer_padded.py", dtypes=["float32"])
    red = {v.claim for v in broken(verdicts)}
    assert "q007.padded-model-stays-finite" in red
    assert red == {v.claim for v in broken(verdicts) if "padding" in v.case}
    assert all(v.judgement.verdict == "fail" for v in broken(verdicts))


@pytest.mark.parametrize("seed", [3, 4, 7])
def test_a_gradient_near_a_kink_of_relu_is_nobodys_fault(seed: int, zoo: Zoo) -> None:
    """At these seeds a hidden feature lies so near 0 that differences over any step see both sides of it."""
    path = HERE / "torch_encoder_layer.py"
    verdicts = zoo.verdicts(path, ["q008.layer-derivative"], seed=seed, dtypes=["float32"])
    assert {v.judgement.verdict for v in verdicts} == {"pass"}, told(verdicts)
