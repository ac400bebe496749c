"""`conformance report`: turn results.jsonl into another format."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from conformance.cli import Exit
from conformance.cli.options import lang_option, reveal_option

if TYPE_CHECKING:
    from conformance.results.store import Results

NAMES = ["html", "markdown", "junit", "ctrf", "gradescope", "json", "csv", "badge", "matrix", "diff"]


@click.command(
    epilog="Example: conformance report conformance-report --to markdown. "
    "Into a file: conformance report conformance-report --to junit -o junit.xml"
)
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RESULTS...")
@click.option("--to", "name", required=True, type=click.Choice(NAMES), help="The format.")
@click.option(
    "-o", "--output", "file", default="-", metavar="FILE", help="Where to; by default, and with -, stdout."
)
@lang_option("report")
@click.option(
    "--rubric", type=click.Path(path_type=Path, dir_okay=False), default=None, metavar="FILE",
    help="Points of gradescope (YAML); default: 100 shared by all MUST claims.",
)  # fmt: skip
@reveal_option
@click.pass_context
def command(
    context: click.Context,
    results: Sequence[Path],
    name: str,
    file: str,
    lang: str,
    rubric: Path | None,
    reveal: str,
) -> None:
    """Turn the results of a run into another format.

    RESULTS is a results.jsonl, or the folder that holds one; matrix takes several, diff two, before and
    after. A badge is an endpoint of shields.io, or the picture where FILE ends with .svg. Exit status: 0
    it was written.
    """
    from conformance.language.errors import PackError
    from conformance.results.store import StoreError, read_results

    if rubric is not None and name != "gradescope":
        raise click.UsageError("--rubric is for --to gradescope")
    if name == "diff" and len(results) != 2:
        raise click.UsageError(f"diff compares two results, before and after; {len(results)} were given.")
    if name not in ("matrix", "diff") and len(results) > 1:
        raise click.UsageError(
            f"The format {name} is of one run, and {len(results)} results were given; only matrix takes several."
        )
    try:
        render = _renderer(name, file, lang, rubric, reveal)
        if name == "matrix":
            context.exit(_matrix(results, file, lang))
        try:
            read = [read_results(path) for path in results]
        except StoreError as error:
            if name == "gradescope":  # whoever waits for points gets a file in any case
                from conformance.reports import gradescope

                _deliver(gradescope.nothing(str(error), lang), file)
            raise
        _deliver(render(read), file)
    except PackError as error:
        click.echo(f"report: --rubric {error}", err=True)
        context.exit(Exit.USAGE)
    except StoreError as error:
        click.echo(f"report: {error}", err=True)
        context.exit(Exit.USAGE)
    _notes(results, read)


def _renderer(
    name: str, file: str, lang: str, rubric: Path | None, reveal: str
) -> Callable[[Sequence[Results]], str]:
    """What makes the text of a format out of the results; faults of a rubric are found before they are read."""
    from conformance.reports import formats
    from conformance.reports.reveal import revealed

    if name == "diff":
        from conformance.reports import difference

        return lambda read: difference.render(read[0], read[1], lang)
    if name == "gradescope" and rubric is not None:
        from conformance.reports import gradescope
        from conformance.reports.rubric import load_rubric

        points = load_rubric(rubric)
        return lambda read: gradescope.render(revealed(read[0], reveal), lang, points)
    if name == "badge" and file.lower().endswith(".svg"):
        from conformance.reports import badge

        return lambda read: badge.render_svg(read[0], lang)
    return lambda read: formats.render(revealed(read[0], reveal), name, lang)


def _matrix(paths: Sequence[Path], file: str, lang: str) -> int:
    """The table of several results, with links to the reports beside them; a file that is none costs its row."""
    from conformance.language.program import Text
    from conformance.reports.entries import Entry, entry_of, failed_entry
    from conformance.reports.matrix import joined, render_entries
    from conformance.results.store import StoreError, read_results

    entries: list[Entry] = []
    headings = []
    for path in paths:
        try:
            # One at a time, since only a row of each is kept.
            run = read_results(path)
        except StoreError as error:
            if len(paths) == 1:
                raise
            entries.append(failed_entry(str(path), Text(str(error), str(error))))
            click.echo(f"report: {error}", err=True)
            continue
        entry, known = entry_of(run, link=_link(path, file))
        entries.append(entry)
        headings.append(known)
        _notes([path], [run])
    _deliver(render_entries(entries, joined(headings), lang), file)
    return Exit.CONFORMS


def _link(path: Path, file: str) -> str:
    """The report beside a results file, as seen from the table; '' where there is none."""
    import os
    from urllib.parse import quote

    page = (path if path.is_dir() else path.parent) / "report.html"
    if file == "-" or not page.is_file():
        return ""
    return quote(os.path.relpath(page, Path(file).parent))


def _deliver(text: str, file: str) -> None:
    from conformance.reports import formats

    if file == "-":
        _print(text)
    else:
        formats.write_text(Path(file), text)


def _notes(paths: Sequence[Path], read: Sequence[Results]) -> None:
    """What a file lacks stands in each format that has a place for it; a table has none."""
    for path, run in zip(paths, read, strict=True):
        if run.end is None:
            click.echo(f"report: {path} is of an interrupted run; it is rendered as far as it goes", err=True)
        for note in run.notes:
            click.echo(f"report: {path}: {note}", err=True)


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
