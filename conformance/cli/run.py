"""`conformance run`: grade one target."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from conformance.cli import Exit
from conformance.cli.options import grading_options, make_options, open_pack


@click.command(epilog="Example: conformance run my_transformer.py --variant llama -o report")
@click.argument("target", nargs=-1, required=True)
@grading_options
@click.option(
    "-o",
    "--output",
    "folder",
    default="conformance-report",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where results.jsonl and report.html go.",
)
@click.option(
    "--lang",
    type=click.Choice(["en", "zh"]),
    default="en",
    show_default=True,
    help="Language of the summary.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="What is printed.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print the verdict only.")
@click.pass_context
def command(
    context: click.Context,
    /,
    target: Sequence[str],
    folder: Path,
    lang: str,
    output_format: str,
    quiet: bool,
    **given: Any,
) -> None:
    """Grade one implementation against the claims.

    TARGET is an adapter file (.py), or the name of a bundled adapter and its arguments.
    """
    from conformance.cli.grading_errors import guarded

    with guarded(context):
        context.exit(_run(target, folder, lang, output_format, quiet, given))


def _run(
    target: Sequence[str], folder: Path, lang: str, output_format: str, quiet: bool, given: dict[str, Any]
) -> int:
    from conformance.reports import formats, terminal
    from conformance.results.store import Writer, read_results
    from conformance.runner import Events, run
    from conformance.targets import resolve_target

    pack = open_pack(given.pop("pack"))
    options = make_options(pack, **given)
    named = resolve_target(target)
    progress = terminal.Progress(lang)
    with Writer(folder) as writer:
        try:
            summary = run(pack, named, options, writer, Events(progress.start, progress.advance))
        finally:
            progress.stop()
    results = read_results(folder)
    report = folder / "report.html"
    formats.write(results, "html", report, lang)
    if output_format == "text":
        terminal.show(results, lang, quiet=quiet)
        if not quiet:
            click.echo(f"{'报告' if lang == 'zh' else 'Report'}: {report}")
    else:
        click.echo(formats.render(results, output_format, lang))
    if not summary.gradable:
        return Exit.NOTHING_GRADABLE
    return Exit.CONFORMS if summary.conforms else Exit.DOES_NOT_CONFORM
