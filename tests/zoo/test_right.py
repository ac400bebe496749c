"""No false alarm: correct implementations, however they are written, pass everything that they offer.

Four fixed seeds here; `benchmarks/` grades fresh ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from conformance.results.records import Verdict
from zoo.rename import rename
from zoo.zoo_grading import RIGHT, Zoo, right_file, told

SEEDS = [0, 11, 20_000, 2**31 - 1]


def test_at_least_twelve_are_written_differently() -> None:
    assert len(RIGHT) >= 12


# One test a seed: what its cases make is worked out once, in whatever process the test is run.
@pytest.mark.parametrize("seed", SEEDS)
def test_correct_adapters_pass_all_that_they_offer(seed: int, zoo: Zoo) -> None:
    alarms = [f"{name}: {alarm}" for name in RIGHT for alarm in alarms_of(zoo, name, seed)]
    assert not alarms, "\n".join(alarms)


def alarms_of(zoo: Zoo, name: str, seed: int) -> Iterator[str]:
    """What is wrong with the grades of a correct adapter, in all the variants and dtypes that it declares."""
    verdicts = zoo.verdicts(right_file(name), seed=seed, diagnosed=True)
    yield from false(verdicts)
    if not any(v.judgement.verdict == "pass" and v.level == "MUST" for v in verdicts):
        yield "no MUST passed"
    for v in verdicts:
        if v.judgement.margin is not None and v.judgement.margin > 1:
            yield f"{v.claim} on {v.case} passed with a margin of {v.judgement.margin}"
        if v.judgement.diagnosis or v.judgement.place:
            yield f"{v.claim} on {v.case} has a diagnosis: {v.judgement.diagnosis or v.judgement.place}"


def false(verdicts: Sequence[Verdict]) -> Iterator[str]:
    red = [v for v in verdicts if v.judgement.verdict not in ("pass", "unsupported")]
    if red:
        yield told(red)


@pytest.mark.parametrize("name", RIGHT)
def test_other_names_in_another_order_change_nothing(name: str, zoo: Zoo, tmp_path: Path) -> None:
    path = tmp_path / "submission.py"
    path.write_text(rename(right_file(name).read_text(encoding="utf-8")).text, encoding="utf-8")
    before, after = zoo.verdicts(right_file(name)), zoo.verdicts(path)
    assert [(v.claim, v.case, v.judgement.verdict) for v in before] == [
        (v.claim, v.case, v.judgement.verdict) for v in after
    ]
