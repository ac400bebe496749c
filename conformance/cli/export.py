"""`conformance export`: the program, or a PyTorch module, as an ONNX file that has been checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from conformance.cli import Exit
from conformance.cli.options import Seed, pack_option

PROGRAM = "program"


@click.command(epilog="Example: conformance export program --variant llama --cache -o llama.onnx")
@click.argument("target", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    "path",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file to write.",
)
@click.option("--cache", is_flag=True, help="With a past that comes in and a present that goes out.")
@click.option("--opset", type=click.IntRange(18, 24), default=None, help="Default: 18.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float16", "bfloat16", "float64"]),
    default="float32",
    show_default=True,
    help="Of weights and results.",
)
@click.option("--external-data", "external", is_flag=True, help="Weights in FILE.data, beside the file.")
@click.option("--variant", metavar="NAME", default=None, help="Of the program: which model it is.")
@click.option(
    "--mistake",
    metavar="ID[:FORM]",
    default=None,
    help="Of the program: a mistake of the pack is made in it, in its first form or another.",
)
@click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="NAME=N",
    help="n_layers, n_heads, n_kv_heads, d_head, d_ff, vocab_size, … instead of a small model's.",
)
@click.option("--seed", type=Seed(), default=0, show_default=True, help="Of the random weights.")
@click.option("--force", is_flag=True, help="Write the file also when it is wrong, and say what is.")
@pack_option
@click.pass_context
def command(context: click.Context, /, target: Sequence[str], **given: Any) -> None:
    """Write an ONNX file and check it before it gets its name.

    TARGET is `program`, the pack's own equations with random weights.
    """
    from conformance.cli.grading_errors import guarded, say
    from conformance.exporting.made import ExportError

    with guarded(context):
        try:
            context.exit(_program(target, given))
        except ExportError as error:
            say("usage", str(error))
            context.exit(Exit.USAGE)
        except OSError as error:
            say("export", f"{error.filename or given['path']}: {error.strerror or error}")
            context.exit(Exit.USAGE)


def _program(target: Sequence[str], given: dict[str, Any]) -> int:
    import secrets

    from conformance.cli.options import open_pack
    from conformance.exporting.files import write
    from conformance.exporting.made import ExportError, Model, mistake_of, sizes_of
    from conformance.exporting.program_export import export_program
    from conformance.plan.variants import resolve

    if target[0] != PROGRAM or len(target) > 1:
        raise ExportError(
            f"{' '.join(target)} cannot be exported; write: conformance export program --variant NAME"
        )
    if given["variant"] is None:
        raise ExportError("--variant is missing: which model of the program is to be written, such as llama")
    pack = open_pack(given["pack"])
    (variant,) = resolve(pack, [], [given["variant"]]).variants
    mistake, form = mistake_of(pack, given["mistake"]) if given["mistake"] else (None, 0)
    seed = secrets.randbelow(2**31) if given["seed"] is None else given["seed"]
    made = Model(pack, variant, sizes_of(pack, given["sizes"]), mistake, form, seed)
    model, steps = export_program(made, given["cache"], given["dtype"], given["opset"] or 18)
    path: Path = given["path"]
    click.echo(
        f"{path}: {variant.name}, opset {given['opset'] or 18}, {given['dtype']}, {len(model.graph.node)} nodes"
    )
    if mistake is not None:
        click.echo(f"{'mistake':<10}{mistake.id}: {mistake.says.en}")
    for step in steps:
        click.echo(str(step))
    if all(step.passed for step in steps) or given["force"]:
        write(model, path, given["external"])
    if all(step.passed for step in steps):
        return Exit.CONFORMS
    if not given["force"]:
        click.echo(f"export: {path} is not written; --force writes it all the same", err=True)
    return Exit.DOES_NOT_CONFORM
