"""The rules that `.ci/run`, the Makefile and `conftest.py` promise, tried out on small projects."""

import ast
import os
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parent.parent

MODULE_WITHOUT_LIBRARY = """
    import pytest
    pytest.importorskip("a_library_that_nobody_has")
    def test_never_seen(): pass
"""

SKIPS = """
    import unittest
    import pytest

    def test_importorskip():
        pytest.importorskip("a_library_that_nobody_has")

    def test_except_import_error():
        try:
            import a_library_that_nobody_has
        except ImportError:
            pytest.skip("one of those days")

    @pytest.mark.skipif(True, reason="torch is not installed")
    def test_skipif(): pass

    @pytest.mark.skip(reason="needs transformers")
    def test_skip(): pass

    @pytest.fixture
    def model():
        return pytest.importorskip("a_library_that_nobody_has")

    def test_fixture(model): pass

    class TestOld(unittest.TestCase):
        def test_unittest(self):
            raise unittest.SkipTest("no module named jax")

    # From here on nothing is about a library.

    @pytest.mark.skipif(True, reason="Windows has no fork")
    def test_platform(): pass

    def test_plain_skip():
        pytest.skip("this case has no cache")

    @pytest.mark.xfail(reason="torch is not installed", strict=True)
    def test_xfail():
        assert False

    def test_passes(): pass
"""


def run_pytest(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: bool, *args: str
) -> pytest.RunResult:
    if ci:
        monkeypatch.setenv("CONFORMANCE_CI", "1")
    else:
        monkeypatch.delenv("CONFORMANCE_CI", raising=False)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST")]:
        monkeypatch.delenv(name)
    pytester.makeconftest(ROOT.joinpath("tests", "conftest.py").read_text(encoding="utf-8"))
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *args)


@pytest.mark.parametrize("processes", ["0", "2"])
def test_ci_fails_a_skip_for_want_of_a_library(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, processes: str
) -> None:
    pytester.makepyfile(test_skips=SKIPS)
    result = run_pytest(pytester, monkeypatch, True, "-n", processes)
    # A skip before the test proper, by a mark or a fixture, fails as an error of its setup.
    result.assert_outcomes(failed=3, errors=3, skipped=2, xfailed=1, passed=1)
    result.stdout.fnmatch_lines(["*skipped for want of a library*a_library_that_nobody_has*"])
    assert result.ret == 1


def test_elsewhere_such_a_skip_stays_a_skip(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_skips=SKIPS)
    result = run_pytest(pytester, monkeypatch, False)
    result.assert_outcomes(skipped=8, xfailed=1, passed=1)
    assert result.ret == 0


@pytest.mark.parametrize("processes", ["0", "2"])
def test_ci_fails_a_file_that_is_skipped_for_want_of_a_library(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, processes: str
) -> None:
    pytester.makepyfile(test_whole_file=MODULE_WITHOUT_LIBRARY, test_other="def test_passes(): pass")
    result = run_pytest(pytester, monkeypatch, True, "-n", processes)
    result.stdout.fnmatch_lines(["*skipped for want of a library*a_library_that_nobody_has*"])
    assert result.ret not in (0, 5)


def test_elsewhere_such_a_file_stays_skipped(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_whole_file=MODULE_WITHOUT_LIBRARY, test_other="def test_passes(): pass")
    result = run_pytest(pytester, monkeypatch, False)
    result.assert_outcomes(skipped=1, passed=1)
    assert result.ret == 0


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command at the top of the repository, not as a part of the `make` that may be running us."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env=env | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def fake_python(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{textwrap.dedent(script)}")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("script", "message"),
    [
        # Answers the question for its version with no.
        ("exit 1", "older than Python 3.11"),
        # Answers it with yes, but cannot import ensurepip.
        ('case "$*" in *ensurepip*) exit 1;; esac', "apt install python3-venv"),
    ],
)
@pytest.mark.parametrize("target", ["demo", "test", "lint"])
def test_make_says_in_one_line_what_is_wrong_with_a_python(
    tmp_path: Path, target: str, script: str, message: str
) -> None:
    python = fake_python(tmp_path / "python", script)
    result = run("make", target, f"PYTHON={python}", f"VENVS={tmp_path / 'venvs'}")
    assert result.returncode != 0
    assert result.stdout == ""
    ours, makes = result.stderr.splitlines()
    assert message in ours
    assert makes.startswith("make: ***")


def test_make_says_that_there_is_no_python(tmp_path: Path) -> None:
    result = run("make", "demo", f"PYTHON={tmp_path / 'python'}", f"VENVS={tmp_path / 'venvs'}")
    assert result.returncode != 0
    assert "Install Python 3.11 or newer" in result.stderr.splitlines()[0]


def test_make_leaves_no_half_environment(tmp_path: Path) -> None:
    # A Python whose environments have a pip that fails, as it does without a network.
    python = fake_python(
        tmp_path / "python",
        """
        if [ "$1 $2" = "-m venv" ]; then
          mkdir -p "$3/bin"
          printf '#!/bin/sh\\necho no network >&2\\nexit 7\\n' > "$3/bin/python"
          chmod +x "$3/bin/python"
        fi
        """,
    )
    venvs = tmp_path / "with a space"
    result = run("make", "demo", f"PYTHON={python}", f"VENVS={venvs}")
    assert "no network" in result.stderr
    assert "The environment could not be made" in result.stderr
    assert result.returncode != 0
    assert not (venvs / "demo").exists()


def test_make_passes_the_status_of_the_run_on(tmp_path: Path) -> None:
    python = fake_python(
        tmp_path / "python",
        """
        if [ "$1 $2" = "-m venv" ]; then
          mkdir -p "$3/bin"
          printf '#!/bin/sh\\nexit 0\\n' > "$3/bin/python"
          printf '#!/bin/sh\\nexit 3\\n' > "$3/bin/conformance"
          chmod +x "$3/bin/python" "$3/bin/conformance"
        fi
        """,
    )
    result = run("make", "demo", f"PYTHON={python}", f"VENVS={tmp_path}", f"REPORT={tmp_path / 'report'}")
    assert result.returncode != 0
    assert "Error 3" in result.stderr


def test_ci_runs_every_step_and_fails_when_one_did(tmp_path: Path) -> None:
    make = fake_python(tmp_path / "make", 'echo "this is $1"; [ "$1" != demo ]')
    result = run(ROOT / ".ci" / "run", PATH=f"{make.parent}:{os.environ['PATH']}")
    assert result.returncode == 1
    assert [line for line in result.stdout.splitlines() if line.startswith("this is")] == [
        "this is lint",
        "this is demo",
        "this is selftest",
        "this is test",
    ]
    assert result.stdout.splitlines()[-1] == "==== FAILED: make demo"


def test_ci_passes_when_every_step_did(tmp_path: Path) -> None:
    make = fake_python(tmp_path / "make", '[ "$CONFORMANCE_CI $CI" = "1 true" ] && ! read line')
    result = run("bash", ".ci/run", PATH=f"{make.parent}:{os.environ['PATH']}")
    assert result.returncode == 0, result.stdout


def test_torch_is_pinned() -> None:
    project = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "torch==2.13.0" in project["optional-dependencies"]["test"]


def test_we_run_on_the_python_that_the_project_asks_for() -> None:
    assert sys.version_info >= (3, 11)


@pytest.mark.parametrize("path", sorted(ROOT.glob("conformance/worker/**/*.py")), ids=lambda path: path.stem)
def test_the_worker_is_python_3_9_and_imports_nothing_of_the_engine(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 9))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level <= 1, f"line {node.lineno} reaches out of the folder"
            names = [node.module or ""] if node.level == 0 else []
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        assert not [name for name in names if name.split(".")[0] == "conformance"], f"line {node.lineno}"
