"""No false alarm: correct PyTorch files, however they are written, pass all that they offer.

One seed here; `benchmarks/verdicts.py --adapters torch` grades fresh ones.
"""

from __future__ import annotations

import pytest
from zoo.zoo_grading import Zoo, broken, told

from torch_zoo.torch_files import RIGHT, right_file

pytest.importorskip("torch")
# One process works out what a seed's cases make, and then grades all files.
pytestmark = pytest.mark.xdist_group("torch-zoo")


def test_at_least_twelve_are_written_differently() -> None:
    assert len(RIGHT) >= 12


@pytest.mark.parametrize("name", RIGHT)
def test_a_correct_file_passes_all_that_it_offers(name: str, zoo: Zoo) -> None:
    verdicts = zoo.verdicts(right_file(name), diagnosed=True)
    assert not list(broken(verdicts)), told(list(broken(verdicts)))
    assert not [v for v in verdicts if v.judgement.diagnosis or v.judgement.place]
    for dtype in {v.dtype for v in verdicts}:
        assert any(
            v.judgement.verdict == "pass" and v.level == "MUST" and v.judgement.margin
            for v in verdicts
            if v.dtype == dtype
        ), dtype
