"""The zoo, opened once for each process."""

import pytest

from zoo.zoo_grading import Zoo


@pytest.fixture(scope="session")
def zoo() -> Zoo:
    return Zoo.opened()
