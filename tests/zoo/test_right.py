"""No false alarm: correct implementations, however they are written, pass everything that they offer.

Four fixed seeds here; `benchmarks/` grades fifty fresh ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from zoo.rename import rename
from zoo.zoo_grading import RIGHT, Zoo, right_file, told

SEEDS = [0, 11, 20_000, 2**31 - 1]
SEEDS_AND_FILES = [
    # One process works out what a seed's cases make, and then grades all files.
    pytest.param(seed, name, id=f"{seed}-{name}", marks=pytest.mark.xdist_group(f"right-zoo-{seed}"))
    for seed in SEEDS
    for name in RIGHT
]


def test_at_least_twelve_are_written_differently() -> None:
    assert len(RIGHT) >= 12


@pytest.mark.parametrize(("seed", "name"), SEEDS_AND_FILES)
def test_a_correct_adapter_passes_all_that_it_offers(seed: int, name: str, zoo: Zoo) -> None:
    verdicts = zoo.verdicts(right_file(name), seed=seed, diagnosed=True)
    assert not [v for v in verdicts if v.judgement.verdict not in ("pass", "unsupported")], told(
        [v for v in verdicts if v.judgement.verdict not in ("pass", "unsupported")]
    )
    assert any(v.judgement.verdict == "pass" and v.level == "MUST" for v in verdicts)
    margins = {v.claim: v.judgement.margin for v in verdicts if v.judgement.margin is not None}
    assert max(margins.values()) <= 1, max(margins, key=lambda claim: margins[claim])
    assert not any(v.judgement.diagnosis or v.judgement.place for v in verdicts)


@pytest.mark.parametrize("name", RIGHT)
def test_other_names_in_another_order_change_nothing(name: str, zoo: Zoo, tmp_path: Path) -> None:
    path = tmp_path / "submission.py"
    path.write_text(rename(right_file(name).read_text(encoding="utf-8")).text, encoding="utf-8")
    before, after = zoo.verdicts(right_file(name)), zoo.verdicts(path)
    assert [(v.claim, v.case, v.judgement.verdict) for v in before] == [
        (v.claim, v.case, v.judgement.verdict) for v in after
    ]
