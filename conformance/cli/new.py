"""`conformance new`: a commented adapter that runs as it is."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.cli import Exit

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
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@click.pass_context
def command(context: click.Context, file: Path, framework: str, force: bool) -> None:
    """Write a commented adapter skeleton to FILE, ready to be graded and filled in."""
    template = TEMPLATES / f"{framework}.py.txt"
    if not template.is_file():
        click.echo(
            f"usage: there is no skeleton for {framework} in this version; use numpy or torch", err=True
        )
        context.exit(Exit.USAGE)
    if file.suffix != ".py":
        click.echo(
            f"usage: {file} should end with .py, since `conformance run` takes it as an adapter file",
            err=True,
        )
        context.exit(Exit.USAGE)
    if file.exists() and not force:
        click.echo(f"usage: {file} exists already; pass --force to write over it", err=True)
        context.exit(Exit.USAGE)
    text = template.read_text(encoding="utf-8").replace("{name}", str(file))
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        click.echo(f"usage: {file} cannot be written: {error.strerror}", err=True)
        context.exit(Exit.USAGE)
    click.echo(f"{file} is written; grade it with: conformance run {file}")
