"""`conformance run`: grade one target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from conformance.cli import Exit
from conformance.cli.options import (
    grading_options,
    lang_option,
    make_options,
    one_thread,
    open_pack,
    reveal_option,
)

if TYPE_CHECKING:
    from conformance.onnx.ahead import Ahead
    from conformance.results.store import Results
    from conformance.targets import Target


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
@lang_option("summary")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="What is printed.",
)
@reveal_option
@click.option("-q", "--quiet", is_flag=True, help="Print the verdict only.")
@click.pass_context
def command(
    context: click.Context,
    /,
    target: Sequence[str],
    folder: Path,
    lang: str,
    output_format: str,
    reveal: str,
    quiet: bool,
    **given: Any,
) -> None:
    """Grade one implementation against the claims.

    TARGET is an adapter file (.py), an ONNX file (.onnx), a bundled adapter with its arguments (pytorch
    my_file.py:GPT, cs336 tests/adapters.py), hf:CLASS, hf:config.json, or program, the pack's own.
    """
    one_thread()
    with ExitStack() as stack:
        ahead = _reading(target, given, stack)
        from conformance.cli.grading_errors import guarded

        with guarded(context):
            context.exit(_run(target, folder, lang, output_format, reveal, quiet, given, ahead))


def _reading(target: Sequence[str], given: Mapping[str, Any], stack: ExitStack) -> Ahead | None:
    """Has another process read an ONNX file, while this one still imports what it needs itself."""
    path = Path(target[0])
    if path.suffix != ".onnx" or len(target) > 1 or given["map_file"] is not None or not path.is_file():
        return None
    from conformance.onnx.ahead import reading_ahead

    return stack.enter_context(reading_ahead(path, {}))


def _run(
    target: Sequence[str],
    folder: Path,
    lang: str,
    output_format: str,
    reveal: str,
    quiet: bool,
    given: dict[str, Any],
    ahead: Ahead | None,
) -> int:
    from conformance.cli.grading_errors import say
    from conformance.reports import formats, terminal
    from conformance.reports.reveal import revealed
    from conformance.results.store import Writer, read_results
    from conformance.runner import Events, run
    from conformance.targets import resolve_target

    pack = open_pack(given.pop("pack"))
    named = replace(resolve_target(target, given.pop("map_file"), pack), ahead=ahead)
    options = make_options(pack, **given)
    progress = terminal.Progress(lang)
    report = folder / "report.html"
    with Writer(folder) as writer:
        _remove(report)
        try:
            summary = run(pack, named, options, writer, Events(progress.start, progress.advance))
        except KeyboardInterrupt:
            progress.stop()
            click.echo(f"\nInterrupted; what was graded so far is in {writer.path}", err=True)
            return Exit.INTERRUPTED
        finally:
            progress.stop()
    results = revealed(read_results(folder), reveal)
    formats.write(results, "html", report, lang)
    if output_format == "text":
        terminal.show(results, lang, quiet=quiet)
        if not quiet:
            click.echo(f"{'报告' if lang == 'zh' else 'Report'}: {report}")
    else:
        click.echo(formats.render(results, output_format, lang))
    for fault in (results.end or {}).get("faults", ())[:1]:
        say("engine", f"{fault}. The verdicts stand. This is a defect of conformance; please report it.")
    if not summary.gradable:
        say(*_nothing(named, results))
        return Exit.NOTHING_GRADABLE
    return Exit.CONFORMS if summary.conforms else Exit.DOES_NOT_CONFORM


def _remove(report: Path) -> None:
    """The report of an earlier run must not stand beside the results of this one."""
    with suppress(OSError):
        report.unlink(missing_ok=True)


def _nothing(named: Target, results: Results) -> tuple[str, str, str]:
    """Side, message and advice where no claim got a verdict. What looks like a slip of the pen comes first."""
    reasons = dict.fromkeys(str(line["summary"]["en"]) for line in results.of_verdict("unsupported"))
    if not reasons:
        return "usage", f"nothing that is selected applies to {named.name}", "see --select and --variant"
    first = sorted(reasons, key=lambda reason: "meant to be" not in reason and "not something" not in reason)[
        :3
    ]
    more = f", and {len(reasons) - 3} more reasons" if len(reasons) > 3 else ""
    advice = (
        "`conformance new my_transformer.py` writes a file to start from, with every function that is graded"
    )
    if named.arguments:  # a file of somebody else's form, which is to stay so
        advice = "each function that is written will be graded; report.html says what is missing"
    return (
        "target",
        f"{named.name} offers nothing that can be graded: {'; '.join(first)}{more}",
        advice,
    )
