"""`conformance compare`: two targets on the same cases, and the first tensor at which they part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from conformance.cli import Exit
from conformance.cli.options import (
    DTYPES,
    Seed,
    lang_option,
    limit_options,
    limits_of,
    open_pack,
    pack_option,
    select_option,
)

if TYPE_CHECKING:
    from conformance.comparing import Choice
    from conformance.pack.model import Pack
    from conformance.targets import Target


@click.command(epilog='Example: conformance compare my_numpy.py "cs336 tests/adapters.py" -o difference')
@click.argument("a")
@click.argument("b")
@pack_option
@select_option("Compare only the cases of these claims")
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="NAME",
    help="Compare as this variant; default: those that both declare.",
)
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    type=click.Choice(DTYPES),
    help="The dtype of both; given twice, that of A and that of B. Default: those that both declare.",
)
@click.option(
    "--seed",
    type=Seed(),
    default=0,
    show_default=True,
    help="Of inputs and parameters; `fresh` draws a new one.",
)
@click.option(
    "--python",
    "pythons",
    multiple=True,
    metavar="EXE",
    help="The interpreter that runs both; given twice, that of A and that of B.",
)
@limit_options
@click.option(
    "-o",
    "--output",
    "folder",
    default=None,
    type=click.Path(path_type=Path),
    help="Write compare.jsonl into this folder.",
)
@lang_option("summary")
@click.option("--all", "everything", is_flag=True, help="Show each tensor also of cases that agree.")
@click.option("-q", "--quiet", is_flag=True, help="Print the verdict only.")
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Compare two implementations, tensor by tensor.

    A and B are targets as of `run`; a bundled adapter with its arguments is one quoted word. Each runs
    in a process of its own and gets the same inputs. Exit status: 0 they agree, 1 they part, 3 nothing
    could be compared.
    """  # fmt: skip
    from conformance.cli.grading_errors import guarded

    for name in ("dtypes", "pythons"):
        if len(given[name]) > 2:
            raise click.UsageError(f"--{name[:-1]} is given {len(given[name])} times; once or twice will do")
    with guarded(context):
        context.exit(_compare(given))


def _compare(given: dict[str, Any]) -> int:
    import secrets

    from conformance.comparing import Choice
    from conformance.plan.selection import parse_selection
    from conformance.reports.comparison import FILE
    from conformance.results.store import Writer

    pack = open_pack(given["pack"])
    selection = parse_selection(given["select"], pack)
    seed = secrets.randbelow(2**31) if given["seed"] is None else given["seed"]
    choice = Choice(selection, given["variants"], given["dtypes"], seed)
    targets = _target("A", given["a"]), _target("B", given["b"])
    with ExitStack() as stack:
        writer = stack.enter_context(Writer(given["folder"], FILE)) if given["folder"] else None
        write = writer.write if writer else _nowhere
        try:
            return _run(pack, targets, choice, given, write, stack)
        except KeyboardInterrupt:
            kept = f"; what was compared so far is in {writer.path}" if writer else "."
            click.echo(f"\nInterrupted{kept}", err=True)
            return Exit.INTERRUPTED


def _run(
    pack: Pack,
    targets: tuple[Target, Target],
    choice: Choice,
    given: dict[str, Any],
    write: Callable[[Mapping[str, Any]], None],
    stack: ExitStack,
) -> int:
    import time

    from conformance.cli.grading_errors import say
    from conformance.comparing import Comparing, Side, ending, planned
    from conformance.plan.items import entry_points
    from conformance.reports import comparison, terminal
    from conformance.serving import serving
    from conformance.session import Session, TargetError

    begun = time.perf_counter()
    pythons = given["pythons"] or (None,)
    limits = limits_of(given["timeout"], given["memory"])

    def side(letter: str, target: Target, python: str | None) -> Side:
        try:
            served = stack.enter_context(serving(target))
        except TargetError as error:
            raise TargetError(
                f"{letter}, {error.message}", error.hint, error.printed, error.traceback
            ) from None
        session = Session(
            served.path, names=entry_points(pack), python=python, limits=limits, arguments=served.arguments
        )
        return Side(letter, target.name, stack.enter_context(session), graph=served.graph)

    sides = side("A", targets[0], pythons[0]), side("B", targets[1], pythons[-1])
    plan = planned(pack, sides, choice)
    write(comparison.head_line(pack, sides, plan, choice.seed))
    cases = []
    for met in Comparing(pack, sides, plan, choice.seed).cases():
        cases.append(met)
        for line in comparison.case_lines(met, plan.graded.undeclared):
            write(line)
    end = ending(cases, time.perf_counter() - begun)
    write(comparison.end_line(end))
    terminal.draw(
        lambda console, lang: comparison.paint(
            console, lang, sides, plan, cases, end, given["quiet"], given["everything"]
        ),
        given["lang"],
    )
    if not end.anything:
        say("usage", "there is nothing that both offer and can be compared", "see --select and --variant")
        return Exit.NOTHING_GRADABLE
    return Exit.CONFORMS if end.agree else Exit.DOES_NOT_CONFORM


def _target(letter: str, word: str) -> Target:
    """The target that one word names. Raises as `resolve_target`, with the side it is about."""
    import shlex

    from conformance.targets import TargetUsageError, resolve_target

    try:
        return resolve_target([word] if Path(word).exists() else shlex.split(word) or [word])
    except TargetUsageError as error:
        raise type(error)(f"{letter}, {error}") from None
    except ValueError as error:  # an unpaired quotation mark
        raise TargetUsageError(f"{letter}, {word}: {error}") from None


def _nowhere(_: Mapping[str, Any]) -> None:
    """Where lines go without -o."""
