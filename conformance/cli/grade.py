"""`conformance grade`: many submissions, side by side, a report each and one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from conformance.cli import Exit
from conformance.cli.options import grading_options, lang_option, one_thread, pack_folder, reveal_option

if TYPE_CHECKING:
    from conformance.many.pool import Row
    from conformance.many.row import Job
    from conformance.reports.entries import Entry, Heading

INDEX, GRADES = "index.html", "grades.csv"


@click.command(
    epilog="Example: conformance grade submissions -o grades. "
    "A course's files as they are: conformance grade submissions --entry tests/adapters.py --adapter cs336"
)
@click.argument(
    "submissions", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR|FILES..."
)
@click.option("--entry", default="", metavar="PATH", help="The file to grade in each submission's folder.")
@click.option(
    "--adapter",
    default="",
    metavar="WORDS",
    help="A bundled adapter that reads each file: cs336, or 'pytorch {}:GPT'.",
)
@grading_options
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    default=None,
    help="How many side by side; default: one a core.",
)
@click.option(
    "-o", "--output", "folder", default="conformance-grades", show_default=True, type=click.Path(path_type=Path),
    help="Where index.html, grades.csv and the reports go.",
)  # fmt: skip
@lang_option("summary")
@click.option(
    "--format", "output_format", type=click.Choice(["text", "json", "csv"]), default="text", show_default=True,
    help="What is printed.",
)  # fmt: skip
@reveal_option
@click.option("-q", "--quiet", is_flag=True, help="Print the last line only.")
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Grade many submissions, each in processes of its own.

    One DIR holds a submission in each of its files and folders. Of several arguments each is a
    submission; a .csv is a roster with the columns name and target. A submission that cannot be graded
    costs its own row only. Exit status: 0 every row was written.
    """
    from conformance.cli.grading_errors import guarded, say
    from conformance.many.submissions import SubmissionError

    with guarded(context):
        try:
            context.exit(_grade(given))
        except SubmissionError as error:
            say("usage", str(error))
            context.exit(Exit.USAGE)


def _grade(given: dict[str, Any]) -> int:
    # What runs side by side must not fight over the cores, and a process that is forked should have no thread.
    one_thread()
    from conformance.many.pool import Pool, cores, forks
    from conformance.many.row import load
    from conformance.reports.grading_progress import GradingProgress

    folder: Path = given["folder"]
    jobs = _jobs(given)
    output, lang = given["output_format"], given["lang"]
    progress = GradingProgress(lang, len(jobs), rows=output == "text" and not given["quiet"])
    _clear(folder)
    entries: dict[int, Entry] = {}
    headings: list[Mapping[str, Heading]] = []

    def finished(row: Row) -> None:
        entry, known = _entry(row, folder)
        entries[id(row)] = entry
        headings.append(known)
        progress.ended(entry)

    def watch(rows: Sequence[Row], running: Sequence[Row]) -> None:
        names = [row.job.submission.name for row in running]
        progress.watch(len(entries), [row.fraction for row in running], names)

    if forks():
        load()
    pool = Pool(given["jobs"] or cores(), finished, watch, _prepare)
    rows = pool.run(jobs)
    progress.clear()
    for row in rows:
        if id(row) not in entries:
            finished(row)
    ordered = [entries[id(row)] for row in rows]
    _write(folder, ordered, headings, lang)
    _show(folder, ordered, lang, output)
    return _status(rows, interrupted=pool.interrupted)


def _prepare(row: Row) -> None:
    """Works out what a row, and those of its kind that come after it, are compared with."""
    from contextlib import suppress

    from conformance.many.row import prepare

    for kind in row.unprepared:
        # A fault of the pack, or of ours, is each row's to report.
        with suppress(Exception):
            prepare(row.job, kind)


def _jobs(given: Mapping[str, Any]) -> list[Job]:
    """What is to be graded, and how; everything is checked before anything starts."""
    from conformance.cli.options import make_options
    from conformance.many.row import Job, opened
    from conformance.many.submissions import Finder
    from conformance.plan.items import entry_points

    where = pack_folder(given["pack"]).absolute()
    pack = opened(where)
    finder = Finder(entry_points(pack), given["entry"], given["adapter"], given["folder"])
    submissions = finder.find(given["submissions"])
    names = ("select", "require", "variants", "dtypes", "seed", "python", "timeout", "memory", "waive")
    options = {name: given[name] for name in names}
    make_options(pack, **options)
    if options["seed"] is None:  # all of them on the same inputs
        import secrets

        options["seed"] = secrets.randbelow(2**31)
    # A row's process stands in the folder of its submission.
    options["waive"] = options["waive"].absolute() if options["waive"] else None
    if options["python"] and "/" in options["python"]:
        options["python"] = str(Path(options["python"]).absolute())
    map_file = given["map_file"].absolute() if given["map_file"] else None
    folder = given["folder"].absolute()
    return [
        Job(s, where, folder / s.folder, options, map_file, given["lang"], given["reveal"])
        for s in submissions
    ]


def _clear(folder: Path) -> None:
    """Makes the folder; a table of an earlier run must not stand over the reports of this one. Raises `StoreError`."""
    from conformance.results.store import StoreError

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (INDEX, GRADES):
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(
            f"the reports cannot be written to {folder}: {error.strerror}; choose another folder with -o DIR"
        ) from None


def _entry(row: Row, folder: Path) -> tuple[Entry, Mapping[str, Heading]]:
    """A row of the table, from what its process left."""
    from dataclasses import replace
    from urllib.parse import quote

    from conformance.many.row import leave
    from conformance.reports import plain
    from conformance.reports.entries import entry_of, failed_entry
    from conformance.results.store import StoreError, read_results

    submission = row.job.submission
    page = row.job.output / "report.html"
    outcome = "interrupted" if row.side == "interrupted" else "nothing graded"
    try:
        if row.side == "death":
            leave(row.job, row.message)
        results = read_results(row.job.output) if row.seconds else None
    except StoreError:
        results = None
    link = f"{quote(submission.folder)}/report.html" if row.seconds and page.is_file() else ""
    name = plain.line(submission.name, plain.NAME) or submission.folder
    if results is None:
        return replace(failed_entry(name, row.message, outcome, link), more=submission.more), {}
    entry, headings = entry_of(results, name, link)
    if row.message.en:
        entry = replace(entry, reason=plain.both(vars(row.message)))
    return replace(entry, more=submission.more), headings


def _write(
    folder: Path, entries: Sequence[Entry], headings: Sequence[Mapping[str, Heading]], lang: str
) -> None:
    from conformance.reports import formats, grades, matrix

    formats.write_text(folder / GRADES, grades.render(entries, lang))
    formats.write_text(folder / INDEX, matrix.render_entries(entries, matrix.joined(headings), lang))


def _show(folder: Path, entries: Sequence[Entry], lang: str, output: str) -> None:
    from collections import Counter

    from conformance.reports import grades
    from conformance.reports.entries import OUTCOMES
    from conformance.reports.terminal import draw
    from conformance.reports.words import say

    if output != "text":
        text = grades.render(entries, lang) if output == "csv" else grades.as_json(entries) + "\n"
        click.echo(text, nl=False)
        return
    outcomes = Counter(entry.outcome for entry in entries)
    n = len(entries)
    many = say("one submission", lang) if n == 1 else say("n submissions", lang, n=n)
    told = say(",", lang).join(f"{say(name, lang)} {outcomes[name]}" for name in OUTCOMES if outcomes[name])
    draw(
        lambda console, lang: console.print(
            f"{many}{say(':', lang)}{told}\n{folder / INDEX}", soft_wrap=True
        ),
        lang,
    )


def _status(rows: Sequence[Row], *, interrupted: bool) -> int:
    from conformance.cli.grading_errors import say

    faults = [row for row in rows if row.side == "fault"]
    for row in faults[:1]:
        click.echo(row.traceback, err=True, nl=False)
        say(
            "engine",
            f"{row.job.submission.name}: {row.message.en}. This is a defect of conformance; please report it.",
        )
    if interrupted:
        click.echo("Interrupted; what was graded so far is in the table.", err=True)
        return Exit.INTERRUPTED
    if faults:
        return Exit.INTERNAL
    outside = [row for row in rows if row.side in ("engine", "report")]
    for row in outside[:1]:
        say(row.side, row.message.en)
    return Exit.USAGE if outside else Exit.CONFORMS
