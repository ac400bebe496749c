import shutil
from pathlib import Path

import pytest
from golden_helpers import build_small, small_pack

from conformance.pack.model import Pack


@pytest.fixture(scope="session")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    return small_pack(tmp_path_factory.mktemp("pack") / "forward-pass")


@pytest.fixture(scope="session")
def built(pack: Pack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its goldens, which no test may change."""
    folder = tmp_path_factory.mktemp("built") / "golden"
    build_small(pack, folder)
    return folder


@pytest.fixture
def golden(built: Path, tmp_path: Path) -> Path:
    """A copy of its goldens, to be spoilt."""
    return Path(shutil.copytree(built, tmp_path / "golden"))
