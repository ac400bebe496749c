"""What can be wrong with a pack, and where: the one error type that loading a pack raises."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Location:
    """A place in a file of the pack. Lines and columns count from 1; 0 means unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """`file:line`, as editors and terminals make it clickable."""
        return f"{self.file}:{self.line}" if self.line else self.file


NOWHERE = Location("<pack>")


class PackError(Exception):
    """The pack itself is at fault, never the target: said with file, line and what to do."""

    def __init__(self, message: str, at: Location = NOWHERE, hint: str = "") -> None:
        """Keep message, place and hint apart, so that every report can lay them out its own way."""
        self.message, self.at, self.hint = message, at, hint
        super().__init__(f"{at}: {message}" + (f" ({hint})" if hint else ""))


class PackErrors(PackError):
    """Several faults of one pack, reported together."""

    def __init__(self, errors: Iterable[PackError]) -> None:
        """`errors` must not be empty."""
        self.errors = tuple(errors)
        first = self.errors[0]
        super().__init__(first.message, first.at, first.hint)

    def __str__(self) -> str:
        """One fault a line."""
        return "\n".join(str(error) for error in self.errors)


def suggestion(name: str, known: Iterable[str]) -> str:
    """`did you mean 'scores'?` for the nearest known name, or an empty string."""
    # Of two letters, one is no likeness: nobody who writes `v` means `Dv`.
    cutoff = 0.6 if len(name) > 2 else 0.7
    near = difflib.get_close_matches(name, sorted(set(known)), n=1, cutoff=cutoff)
    return f"did you mean '{near[0]}'?" if near else ""
