"""The command `conformance`.

Each subcommand is a module with a click command named `command`, and a line in `SUBCOMMANDS`. A module is imported
when its command is used, and not before: `conformance --help` reads this file and click, nothing else (a test holds
that). Why: `docs/decisions/0001-command-line-library.md`.
"""

import enum
import importlib
from typing import Any

import click

from conformance import __version__

__all__ = ["SUBCOMMANDS", "Exit", "main"]

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "run": ("conformance.cli.run", "Grade one implementation against the claims."),
    "grade": ("conformance.cli.grade", "Grade many, side by side: a report each, one table."),
    "compare": ("conformance.cli.compare", "Two implementations on the same cases: where they part."),
    "export": (
        "conformance.cli.export",
        "A module or the program as a checked ONNX file.",
    ),
    "report": ("conformance.cli.report", "Turn results.jsonl into another format."),
    "spec": ("conformance.cli.spec", "List, show, check and render the claims."),
    "golden": ("conformance.cli.golden", "Make, check and hand out golden tensors."),
    "new": ("conformance.cli.new", "Write a commented adapter that runs as it is."),
    "inspect": ("conformance.cli.inspect", "Say what an ONNX graph does, without its weights."),
    "selftest": ("conformance.cli.selftest", "Grade every mistake of the pack: is it caught?"),
}
"""Name of each subcommand, in the order of `--help`: its module, and its one line of help."""


class Exit(enum.IntEnum):
    """What the command's exit status says."""

    CONFORMS = 0
    """The target conforms; of other commands: done, and nothing was wrong."""
    DOES_NOT_CONFORM = 1
    """A MUST failed, or a required claim was not graded."""
    USAGE = 2
    """The command line or the pack is wrong; nothing is said about the target."""
    NOTHING_GRADABLE = 3
    """The target could not be imported, or offers nothing that can be graded."""
    INTERNAL = 70
    """A defect of this tool; nothing is said about the target (the number is sysexits' EX_SOFTWARE)."""
    INTERRUPTED = 130
    """Ctrl-C; what had been graded is kept."""


class LazyGroup(click.Group):
    """A group that knows its subcommands' names and help, and imports one only to run it.

    It also keeps exit status 1 for one meaning, "does not conform": whatever else ends a command early ends with a
    status of its own, so that no crash can pass for a verdict.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order in which a person meets them."""
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command's module."""
        if cmd_name not in SUBCOMMANDS:
            return None
        module, short_help = SUBCOMMANDS[cmd_name]
        command = importlib.import_module(module).command
        assert isinstance(command, click.Command), f"{module}.command is not a click command"
        command.short_help = short_help
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of subcommands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, short_help) for name, (_, short_help) in SUBCOMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command; for one that does not exist, says what was probably meant."""
        name = args[0]
        if name not in SUBCOMMANDS and not name.startswith("-"):
            ctx.fail(f"There is no command {name!r}.{_suggestion(name)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command, and sees to it that only a verdict ends with status 1."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("\nInterrupted.", err=True)
            ctx.exit(Exit.INTERRUPTED)
        except click.ClickException as error:
            if error.exit_code != Exit.DOES_NOT_CONFORM:
                raise
            error.show()  # with click's default status, 1
            ctx.exit(Exit.USAGE)
        except (click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise
        except Exception:
            import traceback  # here, because the way to --help is short without it

            click.echo(traceback.format_exc(), err=True, nl=False)
            click.echo(
                "This is a defect of conformance, not of what it was given. Please report it with the lines above.",
                err=True,
            )
            ctx.exit(Exit.INTERNAL)


def _suggestion(name: str) -> str:
    if name.endswith((".py", ".onnx")):
        return f" To grade a file: conformance run {name}"
    from difflib import get_close_matches

    if close := get_close_matches(name, SUBCOMMANDS, n=1):
        return f" Did you mean {close[0]!r}?"
    return f" Commands: {', '.join(SUBCOMMANDS)}."


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: conformance run my_transformer.py",
)
@click.version_option(__version__, message="%(prog)s %(version)s", prog_name="conformance")
def main() -> None:
    """Grade implementations of the Transformer forward pass.

    A program in YAML computes what is right; claims, in YAML too, say what an implementation is held to.
    """
