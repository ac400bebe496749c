"""What can go wrong before or while grading, as one clear message and an exit status each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from conformance.cli import Exit
from conformance.grading import EngineFault
from conformance.language.errors import PackError
from conformance.locations import MissingDataError
from conformance.plan.selection import SelectionError
from conformance.plan.variants import VariantError
from conformance.results.store import StoreError
from conformance.session import EngineError, TargetError
from conformance.targets import TargetMissing, TargetUsageError


def say(side: str, message: str, hint: str = "") -> None:
    """One message on stderr that names the side at fault."""
    click.echo(f"{side}: {message}" + (f"\n  {hint}" if hint else ""), err=True)


@contextmanager
def guarded(context: click.Context) -> Iterator[None]:
    """Turns known errors into messages and exit statuses; anything else is a defect of ours."""
    try:
        yield
    except TargetMissing as error:
        say("target", str(error))
        context.exit(Exit.NOTHING_GRADABLE)
    except TargetError as error:
        say("target", error.message, error.hint)
        if error.traceback:
            click.echo(error.traceback.rstrip(), err=True)
        if error.printed:
            click.echo(f"  it printed: {error.printed[-2000:].rstrip()}", err=True)
        context.exit(Exit.NOTHING_GRADABLE)
    except PackError as error:
        say("pack", str(error))
        context.exit(Exit.USAGE)
    except VariantError as error:
        asked = str(error).startswith("--variant")
        say("usage" if asked else "target", str(error))
        context.exit(Exit.USAGE if asked else Exit.NOTHING_GRADABLE)
    except (SelectionError, TargetUsageError) as error:
        say("usage", str(error))
        context.exit(Exit.USAGE)
    except (StoreError, MissingDataError) as error:
        say("report" if isinstance(error, StoreError) else "installation", str(error))
        context.exit(Exit.USAGE)
    except EngineError as error:
        say("engine", error.message, error.hint)
        context.exit(Exit.USAGE)
    except EngineFault as error:
        say("engine", f"{error}. This is a defect of conformance, not of the target; please report it.")
        raise
