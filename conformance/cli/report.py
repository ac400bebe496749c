"""`conformance report`: turn results.jsonl into another format."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from conformance.cli import Exit

NAMES = ["html", "markdown", "junit", "ctrf", "gradescope", "json", "csv", "badge", "matrix"]
"""Formats of the contract; `reports.formats` knows which of them are there."""


@click.command(
    epilog="Example: conformance report conformance-report --to markdown. "
    "Into a file: conformance report conformance-report --to html -o report.html"
)
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RESULTS...")
@click.option("--to", "name", required=True, type=click.Choice(NAMES), help="The format.")
@click.option(
    "-o", "--output", "file", default="-", metavar="FILE", help="Where to; by default, and with -, stdout."
)
@click.option(
    "--lang", type=click.Choice(["en", "zh"]), default="en", show_default=True, help="Language of the report."
)
@click.pass_context
def command(context: click.Context, results: Sequence[Path], name: str, file: str, lang: str) -> None:
    """Turn the results of a run into another format.

    RESULTS is a results.jsonl, or the folder that holds one.
    """
    from conformance.reports import formats
    from conformance.results.store import StoreError, read_results

    try:
        formats.renderer(name)
        if len(results) > 1:
            raise click.UsageError(
                f"The format {name} is of one run, and {len(results)} results were given; only matrix takes several."
            )
        read = read_results(results[0])
        if file == "-":
            _print(formats.render(read, name, lang))
        else:
            formats.write(read, name, Path(file), lang)
    except formats.FormatError as error:
        raise click.UsageError(str(error)) from None
    except StoreError as error:
        click.echo(f"report: {error}", err=True)
        context.exit(Exit.USAGE)
    # What a file lacks stands in each format that has a place for it; a table has none.
    if read.end is None:
        click.echo(
            f"report: {results[0]} is of an interrupted run; it is rendered as far as it goes", err=True
        )
    for note in read.notes:
        click.echo(f"report: {results[0]}: {note}", err=True)


def _print(text: str) -> None:
    """The report as UTF-8 whatever the terminal says, since it is a document of a format that is UTF-8."""
    text = text if text.endswith("\n") else text + "\n"
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    stream.write(text.encode("utf-8"))
    stream.flush()
