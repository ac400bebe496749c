"""Formats of a report by name: what `conformance report --to` and `conformance run --format` know.

A format is one module of this package with a function `render`; it is imported when it is asked for, so
that a summary on the terminal does not wait for the templates of a page.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

from conformance.results.store import Results, StoreError

_MODULES = {
    "html": "html", "markdown": "markdown", "junit": "junit", "ctrf": "ctrf", "gradescope": "gradescope",
    "json": "json_report", "csv": "csv_report", "badge": "badge", "matrix": "matrix",
}  # fmt: skip

FORMATS: tuple[str, ...] = tuple(_MODULES)
"""Names of the formats of one run; `matrix` takes several as well, and `difference` two."""


class FormatError(Exception):
    """There is no such format; the message says which there are."""


def renderer(name: str) -> Callable[[Results, str], str]:
    """The function of a format: results and a language (en or zh) to text. Raises `FormatError`."""
    if name not in _MODULES:
        raise FormatError(f"there is no format {name!r}; there are {', '.join(FORMATS)}")
    render: Callable[[Results, str], str] = importlib.import_module(
        f"conformance.reports.{_MODULES[name]}"
    ).render
    return render


def render(results: Results, name: str, lang: str = "en") -> str:
    """The report of a run in a format. Raises `FormatError` for a name that is none."""
    return renderer(name)(results, lang)


def write(results: Results, name: str, path: Path, lang: str = "en") -> None:
    """Writes a report into a file, whole or not at all.

    Raises:
        FormatError: there is no such format.
        StoreError: the file cannot be written; the message says why and what to do.
    """
    write_text(path, render(results, name, lang))


def write_text(path: Path, text: str) -> None:
    """Writes a text into a file, whole or not at all. Raises `StoreError`."""
    # Beside the file and then in its place: an earlier report is not lost to a full disk.
    draft = path.with_name(f".{path.name}.part")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        draft.replace(path)
    except OSError as error:
        _forget(draft)
        raise StoreError(
            f"{path} cannot be written: {error.strerror}; choose another place with -o"
        ) from None


def _forget(draft: Path) -> None:
    try:
        draft.unlink(missing_ok=True)
    except OSError:
        return
