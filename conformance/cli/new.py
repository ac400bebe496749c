"""`conformance new`: a commented adapter that runs as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import click

from conformance.cli import Exit

SECONDS = 120
TEMPLATES = Path(__file__).resolve().parent.parent / "templates"


@click.command(epilog="Example: conformance new my_transformer.py --framework numpy")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--framework",
    type=click.Choice(["numpy", "torch", "onnx"]),
    default="numpy",
    show_default=True,
    help="What its arrays are.",
)
@click.option(
    "--inspect",
    "module",
    metavar="FILE:CLASS",
    default="",
    help="Write a first map (YAML) of this torch.nn.Module instead, from one run of it.",
)
@click.option("--python", metavar="EXE", default=sys.executable, help="The interpreter that runs the module.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@click.pass_context
def command(
    context: click.Context, file: Path, framework: str, module: str, python: str, force: bool
) -> None:
    """Write a commented adapter skeleton to FILE, ready to be graded and filled in."""
    if file.exists() and not force:
        _refuse(context, f"{file} exists already; pass --force to write over it")
    if module:
        if framework != "torch" or file.suffix not in (".yaml", ".yml"):
            _refuse(
                context,
                "--inspect writes the map of a PyTorch module: new map.yaml --framework torch --inspect …",
            )
        text = _draft(context, module, python)
        advice = f"conformance run pytorch {module} --map {file}"
    else:
        text, advice = _skeleton(context, file, framework), f"conformance run {file}"
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        _refuse(context, f"{file} cannot be written: {error.strerror}")
    click.echo(f"{file} is written; grade it with: {advice}")


def _refuse(context: click.Context, message: str) -> NoReturn:
    click.echo(f"usage: {message}", err=True)
    context.exit(Exit.USAGE)


def _draft(context: click.Context, module: str, python: str) -> str:
    """A first map. The module runs in a process of its own, for as long as an import may take."""
    from conformance.locations import bundled
    from conformance.worker.load import NO_TORCH

    program = [python, str(bundled("adapters") / "module_map"), module]
    try:
        done = subprocess.run(program, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        _refuse(context, f"{module} did not end within {SECONDS} s of being built and run")
    except OSError as error:
        _refuse(context, f"the interpreter {python} cannot be started: {error.strerror}; check --python")
    if done.returncode == 0:
        return done.stdout
    lines = done.stderr.strip().splitlines() or ["it ended without a word"]
    advice = f"; {NO_TORCH}" if "No module named 'torch'" in lines[-1] else ""
    click.echo(f"target: {module}: {lines[-1]}{advice}", err=True)
    sys.exit(Exit.NOTHING_GRADABLE)


def _skeleton(context: click.Context, file: Path, framework: str) -> str:
    if file.suffix != ".py":
        graph = file.suffix == ".onnx"
        advice = "; a graph is written by `conformance export program -o model.onnx`" if graph else ""
        _refuse(
            context,
            f"{file} should end with .py, since `conformance run` takes it as an adapter file{advice}",
        )
    # How a framework begins, with one operation as an example; the others are the same in each.
    parts = ((TEMPLATES / f"{part}.py.txt").read_text(encoding="utf-8") for part in (framework, "operations"))
    return "\n\n".join(parts).replace("{name}", str(file))
