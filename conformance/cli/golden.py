"""`conformance golden`: golden tensors and the tolerances kept with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from conformance.cli import Exit
from conformance.cli.options import DTYPES, open_pack, pack_option

_cases = click.option(
    "--case",
    "cases",
    multiple=True,
    metavar="GLOB",
    help="Only cases whose id fits; repeatable. Default: all published cases.",
)


@click.group(epilog="Example: conformance golden export --to npz -o golden-npz")
def command() -> None:
    """Make, check and hand out golden tensors.

    Goldens are what the program makes of the published cases: inputs, parameters, every output and
    every tensor in between, as safetensors. `docs/golden.md` says how to read them.
    """


@contextmanager
def _guarded(context: click.Context) -> Iterator[None]:
    from conformance.cli.grading_errors import guarded, say
    from conformance.golden.files import GoldenError

    with guarded(context):
        try:
            yield
        except GoldenError as error:
            say("golden", str(error))
            context.exit(Exit.USAGE)
        except OSError as error:
            say("golden", f"{error.filename or 'a file'}: {error.strerror or error}")
            context.exit(Exit.USAGE)


@command.command(epilog="Example: conformance golden build")
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Where to; default: the golden/ that comes with the tool. Its goldens are replaced, all at once.",
)
@pack_option
@_cases
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    type=click.Choice(DTYPES),
    help="Keep the tolerances of this dtype; repeatable. Default: of all four.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=None,
    help="Processes; default: one a core, at most one a dtype.",
)
@click.pass_context
def build(
    context: click.Context,
    folder: Path | None,
    pack: Path | None,
    cases: tuple[str, ...],
    dtypes: tuple[str, ...],
    jobs: int | None,
) -> None:
    """Write golden/ anew: every published case, the tolerances, the manifest.

    The result depends on the pack and the tool alone: the same bytes each time. Nothing is edited by
    hand; change the pack and build again.
    """
    from conformance.golden.build import build as make
    from conformance.locations import bundled

    if folder is None and (pack or cases or dtypes):
        raise click.UsageError(
            "with --pack, --case or --dtype the goldens are not the tool's own: say where to with -o DIR"
        )
    with _guarded(context):
        make(open_pack(pack), folder or bundled("golden"), cases, dtypes or tuple(DTYPES), click.echo, jobs)


@command.command(epilog="Example: conformance golden verify")
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path, file_okay=False))
@pack_option
@click.pass_context
def verify(context: click.Context, folder: Path | None, pack: Path | None) -> None:
    """Check every file against the manifest, the pack, and a new reading of the program.

    Ends with status 1 and a line a fault, each with the file's name and both hashes. On one machine
    every number comes out equal to the last bit; on another, sums may run in another order, and may
    differ by what the float64 tolerance allows for that.
    """
    from conformance.cli.grading_errors import say
    from conformance.golden.verify import verify as check
    from conformance.locations import bundled

    with _guarded(context):
        opened = open_pack(pack)
        report = check(opened, folder or bundled("golden"))
        for problem in report.problems:
            say("golden", str(problem))
        if not report.passed:
            context.exit(Exit.DOES_NOT_CONFORM)
        said = f"golden: {report.files} files, {report.bytes / 1e6:.2f} MB, of {opened.id} {opened.version}: as built"
        if report.inexact:
            said += f"; {report.inexact} tensors differ in their last bits, as on another machine"
        if report.unchecked:
            said += f", and {report.unchecked} of which only hashes are kept were not compared"
        click.echo(said)


@command.command(epilog="Example: conformance golden export --to json --case 'attention-*' -o golden-json")
@click.option(
    "--to", "form", type=click.Choice(["npz", "json"]), required=True, help="NumPy archives, or JSON."
)
@click.option(
    "-o",
    "--output",
    "out",
    type=click.Path(path_type=Path, file_okay=False),
    default="golden-export",
    show_default=True,
    help="Where to.",
)
@_cases
@click.option(
    "--from",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="A folder of goldens; default: the one that comes with the tool.",
)
@pack_option
@click.pass_context
def export(
    context: click.Context,
    form: str,
    out: Path,
    cases: tuple[str, ...],
    folder: Path | None,
    pack: Path | None,
) -> None:
    """Write the goldens in another format, for languages that read no safetensors."""
    from conformance.golden.export import export as write
    from conformance.locations import bundled

    with _guarded(context):
        written = write(
            open_pack(pack), folder or bundled("golden"), out, "npz" if form == "npz" else "json", cases
        )
        click.echo(f"{len(written)} files in {out}")
