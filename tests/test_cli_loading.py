"""What `conformance` imports, and how it ends when something goes wrong. What the subcommands do is tested elsewhere."""

import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner, Result

from conformance import __version__, cli

# Each costs as much as the whole of `--help` may take, or has its place in a subcommand.
HEAVY = {
    "numpy",
    "yaml",
    "rich",
    "onnx",
    "onnxruntime",
    "jsonschema",
    "jinja2",
    "safetensors",
    "torch",
    "pytest",
}

HELP_AND_MODULES = """
import contextlib, io, json, sys
from conformance.cli import main
text = io.StringIO()
with contextlib.redirect_stdout(text):
    try:
        main(sys.argv[1:], prog_name="conformance")
    except SystemExit as end:
        status = end.code
print(json.dumps({"status": status, "text": text.getvalue(), "modules": sorted(sys.modules)}))
"""


def invoke(*args: str) -> Result:
    return CliRunner().invoke(cli.main, args, prog_name="conformance")


def test_help_lists_the_subcommands_and_imports_none() -> None:
    process = subprocess.run(
        [sys.executable, "-c", HELP_AND_MODULES, "--help"], capture_output=True, text=True, check=True
    )
    seen = json.loads(process.stdout)
    assert seen["status"] == 0
    modules = set(seen["modules"])
    for name, (module, short_help) in cli.SUBCOMMANDS.items():
        assert f"  {name} " in seen["text"]
        assert short_help in seen["text"]
        assert module not in modules
    assert "Example: conformance run" in seen["text"]
    assert not HEAVY & modules
    assert {name for name in modules if name.split(".")[0] == "conformance"} == {
        "conformance",
        "conformance.cli",
    }


@pytest.mark.parametrize("name", cli.SUBCOMMANDS)
def test_each_subcommand_has_help_with_an_example(name: str) -> None:
    result = invoke(name, "--help")
    assert result.exit_code == 0, result.output
    assert "Example" in result.output
    assert f"conformance {name}" in result.output


def test_version_has_one_source() -> None:
    assert invoke("--version").output == f"conformance {__version__}\n"


def test_module_and_command_are_the_same() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "conformance", "--version"], capture_output=True, text=True, check=True
    )
    assert process.stdout == f"conformance {__version__}\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["rnu"], "Did you mean 'run'?"),
        (["my_model.py"], "To grade a file: conformance run my_model.py"),
        (["xyzzy"], "Commands: run, grade, compare,"),
        (["--colour"], "No such option"),
    ],
)
def test_a_wrong_command_line_is_status_2(args: list[str], message: str) -> None:
    result = invoke(*args)
    assert result.exit_code == 2
    assert message in result.output


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> dict[str, BaseException]:
    """A subcommand `run` that raises what is put under "error"."""
    box: dict[str, BaseException] = {}

    @click.command()
    def command() -> None:
        raise box["error"]

    monkeypatch.setattr(cli.LazyGroup, "get_command", lambda *_: command)
    return box


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (click.ClickException("the pack is broken"), cli.Exit.USAGE, "Error: the pack is broken"),
        (click.UsageError("which one?"), cli.Exit.USAGE, "which one?"),
        (click.exceptions.Exit(1), cli.Exit.DOES_NOT_CONFORM, ""),
        (SystemExit(3), cli.Exit.NOTHING_GRADABLE, ""),
        (KeyboardInterrupt(), cli.Exit.INTERRUPTED, "Interrupted."),
        (
            ZeroDivisionError("oops"),
            cli.Exit.INTERNAL,
            "ZeroDivisionError: oops\nThis is a defect of conformance",
        ),
    ],
)
def test_only_a_verdict_is_status_1(
    raising: dict[str, BaseException], error: BaseException, status: int, message: str
) -> None:
    raising["error"] = error
    result = invoke("run")
    assert result.exit_code == status
    assert message in result.output
