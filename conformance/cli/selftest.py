"""`conformance selftest`: every mistake of the pack graded as an implementation."""

from __future__ import annotations

import os
from pathlib import Path

import click

from conformance.cli import Exit
from conformance.cli.options import pack_folder, pack_option


@click.command(epilog="Example: conformance selftest --mistake 'rope-*' --table")
@pack_option
@click.option(
    "--mistake",
    "pattern",
    default="*",
    show_default=True,
    metavar="GLOB",
    help="Only these mistakes; claims that nothing catches are then not looked for.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    show_default=True,
    help="Trials at a time.",
)
@click.option("--table", is_flag=True, help="Print every claim that catches a mistake, with its margin.")
@click.pass_context
def command(context: click.Context, pack: Path | None, pattern: str, jobs: int, table: bool) -> None:
    """Grade every mistake as an implementation: caught? And does every claim catch one?"""
    from conformance import selftest
    from conformance.cli.grading_errors import guarded

    def said(trial: selftest.Trial) -> None:
        claims = len({c.claim for c in trial.catches})
        form = (
            f" ({trial.form})" if trial.form else f" in {trial.dtype}" if trial.name == selftest.TRUE else ""
        )
        click.echo(f"{trial.name + form:56} {claims:4} claims red, by {trial.margin:.3g} tolerances")

    with guarded(context):
        folder = pack_folder(pack)
        report = selftest.selftest(folder, pattern, jobs, said)
        if table:
            for line in selftest.table(report.trials):
                click.echo(line)
        for dtype in selftest.NARROW:
            blind = report.blind(dtype)
            click.echo(f"\n{dtype} is blind to {len(blind)} mistakes: {', '.join(blind) or 'none'}")
        for alarm in report.alarms:
            for catch in alarm.catches:
                click.echo(f"FALSE ALARM in {alarm.dtype}: {catch.claim} on {catch.case}, {catch.variant}")
        for trial in report.hidden():
            click.echo(f"NOT EXPOSED: {trial.name} {trial.form} (at best {trial.margin:.3g} tolerances)")
        for claim in report.idle():
            click.echo(f"CATCHES NOTHING: {claim}")
        good = len(report.trials) - len(report.hidden())
        click.echo(
            f"\n{good} of {len(report.trials)} exposed; {'the suite proves itself' if report.passed else 'it does not'}"
        )
        context.exit(Exit.CONFORMS if report.passed else Exit.DOES_NOT_CONFORM)
