"""The pack, opened once for each process, and grading with what is shared between files."""

import pytest
from zoo.zoo_grading import Zoo


@pytest.fixture(scope="session")
def zoo() -> Zoo:
    return Zoo.opened()
