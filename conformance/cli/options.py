"""Options that `run` shares with every command that grades, and what they become."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from conformance.pack.model import Pack
    from conformance.runner import Options
    from conformance.session import Limits

F = TypeVar("F", bound=Callable[..., Any])
DTYPES = ["float64", "float32", "float16", "bfloat16"]


class Seed(click.ParamType):  # type: ignore[type-arg]  # generic only in some versions
    """A number, or `fresh` for a new one each time."""

    name = "N|fresh"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """The seed, or None for a fresh one."""
        if value is None or value == "fresh":
            return None
        try:
            seed = int(value)
        except (TypeError, ValueError):
            self.fail(f"{value!r} is neither a number nor 'fresh'", param, ctx)
        if seed < 0:
            self.fail("a seed is not negative", param, ctx)
        return seed


pack_option = click.option(
    "--pack",
    type=click.Path(path_type=Path),
    default=None,
    help="A folder of claims; default: the bundled forward-pass.",
)
"""`--pack`, of every command that opens one."""


reveal_option = click.option(
    "--reveal",
    type=click.Choice(["none", "hint", "full"]),
    default="full",
    show_default=True,
    help="What reports show of the answers: hint names mistake, tensor and place, without numbers.",
)
"""`--reveal`, of every command that writes reports."""


def lang_option(what: str) -> Callable[[F], F]:
    """`--lang`, of every command that says something of a run; `what` is in the language."""
    return click.option(
        "--lang",
        type=click.Choice(["en", "zh"]),
        default="en",
        show_default=True,
        help=f"Language of the {what}.",
    )


def map_option(what: str) -> Callable[[F], F]:
    """`--map`, with what it is for."""
    return click.option(
        "--map",
        "map_file",
        type=click.Path(path_type=Path, dir_okay=False),
        default=None,
        metavar="FILE",
        help=what,
    )


def select_option(what: str) -> Callable[[F], F]:
    """`--select`, with what it does to the command."""
    return click.option(
        "--select",
        multiple=True,
        metavar="EXPR",
        help=f"{what}: ids with globs, rung: level: question: dtype: variant:; comma is or, repeated is and, ! excludes.",
    )


def limit_options(function: F) -> F:
    """`--timeout` and `--memory`, of every command that runs a target."""
    function = click.option(
        "--memory",
        type=click.IntRange(min=64),
        default=4096,
        show_default=True,
        help="Megabytes for the target's process.",
    )(function)
    return click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=10.0,
        show_default=True,
        help="Seconds for one call; for the import where that is more than 60.",
    )(function)


def limits_of(timeout: float, memory: int) -> Limits:
    """What a target may use, by `--timeout` in seconds and `--memory` in megabytes.

    A slow machine needs longer for an import too; less than the usual time is never meant for one.
    """
    from conformance.session import Limits

    return Limits(timeout=timeout, import_timeout=max(timeout, Limits.import_timeout), memory_mb=memory)


def grading_options(function: F) -> F:
    """Adds the options of grading, in the order of the help."""
    options = [
        pack_option,
        select_option("Grade only these claims"),
        click.option(
            "--require",
            multiple=True,
            metavar="EXPR",
            help="Claims that must be graded; unsupported counts as failed.",
        ),
        click.option(
            "--variant",
            "variants",
            multiple=True,
            metavar="NAME",
            help="Grade as this variant; default: what the file declares.",
        ),
        click.option(
            "--dtype",
            "dtypes",
            multiple=True,
            type=click.Choice(DTYPES),
            help="Grade in this dtype; default: what the file declares.",
        ),
        map_option(
            "How a module is built, filled and called; or which input and output of an ONNX file is what (YAML)."
        ),
        click.option(
            "--seed",
            type=Seed(),
            default=0,
            show_default=True,
            help="Of inputs and parameters; `fresh` draws a new one.",
        ),
        click.option(
            "--python",
            metavar="EXE",
            default=None,
            help="The interpreter that runs the target; it needs NumPy only.",
        ),
        limit_options,
        click.option(
            "--waive",
            type=click.Path(path_type=Path, dir_okay=False),
            default=None,
            metavar="FILE",
            help="Accepted failures, each with a reason and an expiry.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def pack_folder(folder: Path | None) -> Path:
    """The folder of `--pack`, or the bundled pack's."""
    from conformance.locations import bundled

    return folder if folder is not None else bundled("spec") / "forward-pass"


def one_thread() -> None:
    """Numerical libraries that are imported from now on use one thread each, unless the environment says more.

    A second one waits for the first in a loop: next to others a large graph took four times the processor time.
    """
    import os

    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def open_pack(folder: Path | None, *, mistakes: bool = False) -> Pack:
    """The pack of `--pack`, or the bundled one; `mistakes` checks those too. Raises `PackError`."""
    from conformance.checked_pack import open_checked

    pack = open_checked(pack_folder(folder), mistakes=mistakes)
    _settled()
    return pack


@functools.cache
def _settled() -> None:
    """A hundred thousand objects stay to the end: collecting garbage need not look at them.

    Once in a process: what is garbage when this is called stays as well.
    """
    import gc

    gc.freeze()


def make_options(
    pack: Pack,
    select: tuple[str, ...],
    require: tuple[str, ...],
    variants: tuple[str, ...],
    dtypes: tuple[str, ...],
    seed: int | None,
    python: str | None,
    timeout: float,
    memory: int,
    waive: Path | None,
) -> Options:
    """The options of a run. Raises `SelectionError`, and `click.UsageError` for the waivers' file."""
    from conformance.language.errors import PackError
    from conformance.plan.selection import parse_selection
    from conformance.plan.waivers import load_waivers
    from conformance.runner import Options

    try:
        waivers = load_waivers(waive) if waive else ()
    except PackError as error:
        raise click.UsageError(f"--waive {error}") from None
    return Options(
        parse_selection(select, pack),
        tuple((text, parse_selection([text], pack, "--require")) for text in require),
        variants,
        dtypes,
        seed,
        python,
        limits_of(timeout, memory),
        waivers,
    )
