"""A fault of the map, or of the module as the map describes it: with the map's file and line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class MapError(ValueError):
    """The map and the module do not fit; the message names the line of the map."""

    refusal = "correct the map, or the module that it describes"
    """Advice; that an exception has it says that its message is for the person who grades, without a traceback."""


class Misfit(MapError):
    """A parameter of the module has another shape than the map makes: at some sizes only, if it was not seen before."""


class NoVariant(MapError):
    """A config asks for a model that the program is no variant of."""

    refusal = "only what is a variant of the program can be graded; docs/module-maps.md lists its choices"


class Lines:
    """Where each entry of a map stands: '' where the map has no file."""

    def __init__(self, file: str = "", lines: Mapping[str, int] | None = None) -> None:
        self.file = file
        self._lines = dict(lines or {})

    def at(self, *path: str) -> str:
        """`map.yaml, line 12: ` for an entry, or for the nearest one around it."""
        for length in range(len(path), 0, -1):
            line = self._lines.get("/".join(path[:length]))
            if line is not None:
                return f"{self.file}, line {line}: "
        return f"{self.file}: " if self.file else ""


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names in a sentence, not endlessly many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
