"""The wheel, in an environment elsewhere, does what the checkout does.

The wheel is made the way a release is: the source distribution first, then the wheel from it, so a file missing from
either shows. Nothing is downloaded: the build runs without isolation (hatchling is in the extra `test`), and the new
environment gets our wheel and nothing else, with the dependencies of the running environment made visible by a .pth
file. Those stand behind the new environment's own packages on `sys.path`, so `conformance` is the wheel's, which a
test makes sure of.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent

# One process builds; with `--dist loadgroup` the others leave this file to it.
pytestmark = pytest.mark.xdist_group("wheel")


class Environment:
    """A place from which `conformance` is run as a person does."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.python = python
        self.folder = folder

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(
            [str(self.python), *args],
            cwd=self.folder,
            env=env | {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONUTF8": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def conformance(self, *args: str) -> subprocess.CompletedProcess[str]:
        # -P: the current directory is no place to import from.
        return self.run("-P", str(self.python.with_name("conformance")), *args)

    def bundled(self, name: str) -> Path:
        found = self.run(
            "-P", "-c", f"from conformance.locations import bundled; print(bundled({name!r}), end='')"
        )
        assert found.returncode == 0, found.stderr
        return Path(found.stdout)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution and the wheel made from it."""
    folder = tmp_path_factory.mktemp("dist")
    built = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (wheel,) = dist.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment, far from the checkout, in which only the wheel was installed."""
    folder = tmp_path_factory.mktemp("elsewhere")
    home = folder / "environment"
    venv.create(home, symlinks=True, with_pip=False)
    python = home / "bin" / "python"
    pip = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(python),
            "install",
            "--no-deps",
            "--no-index",
            str(wheel),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert pip.returncode == 0, pip.stdout + pip.stderr
    (site_packages,) = home.glob("lib/python3.*/site-packages")
    theirs = [path for path in sys.path if Path(path).name in {"site-packages", "dist-packages"}]
    (site_packages / "dependencies.pth").write_text("".join(f"{path}\n" for path in theirs))
    work = folder / "work"
    work.mkdir()
    return Environment(python, work)


@pytest.fixture(scope="module")
def checkout() -> Environment:
    return Environment(Path(sys.executable), ROOT)


def files(folder: Path) -> dict[str, bytes]:
    """What git would keep of a folder: everything but caches."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.parametrize("name", ["spec", "golden", "adapters"])
def test_the_wheel_carries_the_data(wheel: Path, name: str) -> None:
    prefix = f"conformance/_data/{name}/"
    with zipfile.ZipFile(wheel) as archive:
        carried = {
            member.removeprefix(prefix): archive.read(member)
            for member in archive.namelist()
            if member.startswith(prefix)
        }
    assert carried
    assert carried == files(ROOT / name)


def test_the_wheel_carries_the_package_and_nothing_at_the_top(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        members = archive.namelist()
    package = {member for member in members if member.startswith("conformance/")}
    assert {f"conformance/{name}" for name in files(ROOT / "conformance")} <= package
    assert "conformance/py.typed" in package
    assert any(member.startswith("conformance/worker/") for member in package)
    # `adapters` and `spec` at the top would collide with other projects' packages.
    top = {member.split("/")[0] for member in members}
    assert {name for name in top if not name.endswith(".dist-info")} == {"conformance"}


def test_the_source_distribution_has_everything(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        members = {name.partition("/")[2] for name in archive.getnames()}
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files"], cwd=ROOT, capture_output=True, text=True
    )
    # In an unpacked source distribution there is no git to ask, and nothing to compare with.
    tracked = {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
    assert tracked - members == set()
    assert {"LICENSE", "Makefile", "README.md", "tests/conftest.py", ".ci/run"} <= members


def test_it_is_the_wheel_that_runs(installed: Environment) -> None:
    home = installed.python.parent.parent
    for name in ("spec", "golden", "adapters"):
        folder = installed.bundled(name)
        assert folder.is_relative_to(home.resolve())
        assert folder.parts[-3:] == ("conformance", "_data", name)


def test_adapters_is_no_importable_name(installed: Environment) -> None:
    assert installed.run("-P", "-c", "import adapters").returncode == 1


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["spec", "list"], ["spec", "check"]])
def test_it_says_what_the_checkout_says(
    installed: Environment, checkout: Environment, args: list[str]
) -> None:
    ours, theirs = checkout.conformance(*args), installed.conformance(*args)
    assert ours.returncode == theirs.returncode == 0, ours.stderr + theirs.stderr
    assert without_places(ours.stdout, checkout) == without_places(theirs.stdout, installed) != ""


def without_places(text: str, environment: Environment) -> str:
    """Where a text names a place, the checkout's is another than the wheel's."""
    return text.replace(str(environment.bundled("spec").parent), "")


def test_it_grades_as_the_checkout_does(
    installed: Environment, checkout: Environment, tmp_path: Path
) -> None:
    seen = []
    for environment in (checkout, installed):
        target = environment.bundled("adapters") / "numpy_reference.py"
        report = tmp_path / environment.folder.name
        graded = environment.conformance("run", str(target), "-o", str(report))
        assert graded.returncode == 0, graded.stdout + graded.stderr
        seen.append(verdicts(report / "results.jsonl"))
    ours, theirs = seen
    assert Counter(ours.values()) == Counter(theirs.values())
    assert ours == theirs
    assert set(ours.values()) >= {"pass"}


def verdicts(results: Path) -> dict[tuple[Any, ...], str]:
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    assert lines[-1]["kind"] == "end"
    assert lines[-1]["conforms"] is True
    return {
        (line["claim"], line["case"], str(line["variant"]), line["dtype"]): line["verdict"]
        for line in lines
        if line["kind"] == "verdict"
    }


def test_the_worker_is_run_by_path_from_the_wheel(installed: Environment) -> None:
    """The worker's folder is there, complete, and not inside a zip file or behind an import."""
    worker = installed.bundled("spec").parent.parent / "worker"
    assert files(worker) == files(ROOT / "conformance" / "worker")
    assert shutil.which("conformance", path=str(installed.python.parent)) is not None
