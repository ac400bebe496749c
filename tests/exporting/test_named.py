"""A mistake in a file is caught and named by `run` on the file alone, as the one cause."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conformance.exporting.made import Model
from conformance.locations import bundled
from conformance.pack.load import load_pack
from conformance.pack.model import Pack
from exporting.grades import end_of, graded


@pytest.fixture(scope="module")
def pack() -> Pack:
    return load_pack(bundled("spec") / "forward-pass")


TELLING = (
    "q005.logits,q005.left-padding*,q005.decode-chunks,q005.decode-left-padding*,q005.decode-positions,"
    "q008.model-large-scores,rung:graph"
)
"""Claims that show every one of these mistakes; all of them together take four times as long."""
BY_VARIANT = {
    "gpt2": [
        "scale-by-model-width",
        "scale-by-head-width",
        "no-scale",
        "scale-multiplied",
        "scale-by-query-count",
        "cosine-similarity",
        "softmax-missing",
        "softmax-over-query",
        "softmax-over-batch",
        "softmax-plus-one",
        "softmax-without-maximum",
        "softmax-global-maximum",
        "argmax-for-softmax",
        "uniform-weights",
        "no-mask",
        "mask-top-left",
        "mask-sees-next",
        "mask-hides-self",
        "mask-after-softmax",
        "causal-upper-triangle",
        "padding-ignored",
        "padding-forgotten-in-decode",
        "cache-not-kept",
        "cache-forgotten",
        "cache-scrambled",
        "history-cut-off",
        "fused-qkv-order",
        "fused-qkv-as-qvk",
        "heads-merged-without-transpose",
        "heads-split-without-transpose",
        "queries-and-keys-exchanged",
        "projections-transposed",
        "value-bias-ignored",
        "output-bias-ignored",
        "bias-ignored",
        "output-projection-missing",
        "attention-missing",
        "ffn-missing",
        "residual-from-normed",
        "residual-overwritten",
        "ffn-residual-from-x",
        "post-norm-for-pre-norm",
        "parallel-layer",
        "no-final-norm",
        "norm-shared",
        "relu-for-gelu",
        "gelu-erf-for-tanh",
        "activation-missing",
        "ffn-output-bias-ignored",
    ],
    "llama": [
        "keys-rotated-again",
        "keys-and-values-swapped",
        "gqa-tile",
        "rope-other-layout",
        "rope-turned-backwards",
        "rope-lost",
        "rope-theta-fixed",
        "gate-and-up-swapped",
        "gate-without-activation",
        "gate-unused",
        "up-unused",
    ],
    "minimal": ["gelu-for-relu", "scores-summed-over-batch"],
}
WHOLE = {"last-layer-missing": "gpt2", "one-layer-shared": "gpt2", "only-last-layer": "gpt2"}
"""Those that take two layers to show."""
MISTAKES = [(m, v, 1) for v, mistakes in BY_VARIANT.items() for m in mistakes]
MISTAKES += [(m, v, 2) for m, v in WHOLE.items()]


def test_there_are_enough() -> None:
    assert len({mistake for mistake, _, _ in MISTAKES}) >= 40


@pytest.mark.parametrize(("mistake", "variant", "layers"), MISTAKES)
def test_a_mistake_in_a_file_is_named(
    pack: Pack, mistake: str, variant: str, layers: int, tmp_path: Path
) -> None:
    sizes = {"n_layers": layers}
    made = Model(pack, pack.variants[variant], sizes, pack.program.mistakes[mistake])
    end = end_of(graded(made, True, tmp_path, select=TELLING))
    assert end["conforms"] is False
    (cause,) = end["causes"]
    assert mistake in cause["mistakes"]
    # Some make the same numbers in all that is graded here, as keys and values exchanged before or after: both are named.
    assert len(cause["mistakes"]) <= 2


@pytest.mark.parametrize(
    ("variant", "second"), [("gpt2", "position-reset-in-decode"), ("llama", "cache-slot-late")]
)
def test_beside_a_second_mistake_the_first_keeps_its_name(
    pack: Pack, variant: str, second: str, tmp_path: Path
) -> None:
    """Of one query at a time the number of queries is 1, as no scale is: a name from before is enough there."""
    also = replace(pack, program=pack.program.patched(second))
    made = Model(also, pack.variants[variant], {"n_layers": 1}, pack.program.mistakes["no-scale"])
    results = graded(made, True, tmp_path, select=f"{TELLING},q005.decode-one-by-one", pack=pack)
    named = {line["claim"]: [d["mistake"] for d in line["diagnosis"]] for line in results.of_verdict("fail")}
    assert named["q005.logits"] == ["no-scale"]
    assert named["q005.decode-one-by-one"] == ["no-scale"]
