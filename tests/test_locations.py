from pathlib import Path

import pytest

from conformance import locations
from conformance.locations import MissingDataError, bundled

ROOT = Path(__file__).resolve().parent.parent
OURS = '[project]\nname = "transformer-conformance"\n'


@pytest.mark.parametrize("name", ["spec", "golden", "adapters"])
def test_a_checkout_has_them_at_the_top(name: locations.BundledFolder) -> None:
    assert bundled(name) == ROOT / name


@pytest.mark.parametrize("name", ["spec", "golden", "adapters"])
def test_a_wheel_has_them_inside(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "conformance" / "_data" / name
    folder.mkdir(parents=True)
    (tmp_path / name).mkdir()  # somebody else's
    (tmp_path / "pyproject.toml").write_text(OURS)
    assert locations._find(name, tmp_path / "conformance") == folder


def test_an_incomplete_wheel_says_how_to_repair_it(tmp_path: Path) -> None:
    (tmp_path / "conformance" / "_data").mkdir(parents=True)
    with pytest.raises(MissingDataError, match=r"golden is missing; reinstall it: python -m pip install"):
        locations._find("golden", tmp_path / "conformance")


def test_an_incomplete_checkout_says_how_to_repair_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(OURS)
    with pytest.raises(MissingDataError, match=r"spec is missing; bring it back: git -C .* checkout -- spec"):
        locations._find("spec", tmp_path / "conformance")


@pytest.mark.parametrize("pyproject", [None, b'[project]\nname = "another"\n', b"\xff\xfe"])
def test_a_stranger_s_folder_is_not_taken(tmp_path: Path, pyproject: bytes | None) -> None:
    (tmp_path / "adapters").mkdir()
    if pyproject is not None:
        (tmp_path / "pyproject.toml").write_bytes(pyproject)
    with pytest.raises(MissingDataError, match="install it with pip, or run it from a clone"):
        locations._find("adapters", tmp_path / "conformance")
