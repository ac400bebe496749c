"""The one place that writes results: `results.jsonl`, line by line as it happens, and reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

import msgspec

from conformance.results.records import SCHEMA

FILE = "results.jsonl"


class StoreError(Exception):
    """The report folder cannot be written, or a results file not be read; says what to do."""


class Writer:
    """Appends lines to `results.jsonl`. When the disk fails, what was written stays."""

    def __init__(self, folder: Path, file: str = FILE) -> None:
        """Creates the folder and an empty file. Raises `StoreError`."""
        self.path = folder / file
        self._written: set[str] = set()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file: TextIO = self.path.open("w", encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise StoreError(
                f"the report cannot be written to {folder}: {error.strerror}; choose another folder with -o DIR"
            ) from None

    def write(self, line: Mapping[str, Any]) -> None:
        """One line, flushed, so that an interrupted run keeps it. Raises `StoreError`."""
        try:
            self._file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
            self._file.flush()
        except OSError as error:
            raise StoreError(
                f"{self.path} cannot be written any further: {error.strerror}; what was graded so far is in it. "
                "Make room, or choose another folder with -o DIR"
            ) from None

    @property
    def arrays(self) -> Path:
        """The folder of array files that reproduce failures."""
        return self.path.parent / "reproduce"

    def write_arrays(self, name: str, arrays: Mapping[str, Any]) -> bool:
        """One `.npz` file under `arrays`, unless it is there from this run; whether it is new."""
        import numpy as np

        if name in self._written:
            return False
        self._written.add(name)
        try:
            self.arrays.mkdir(exist_ok=True)
            np.savez(self.arrays / name, **arrays)
        except OSError as error:
            raise StoreError(
                f"{self.arrays / name} cannot be written: {error.strerror}; what was graded so far is in {self.path}"
            ) from None
        return True

    def close(self) -> None:
        """Close the file; a full disk at this point is of no further interest."""
        try:
            self._file.close()
        except OSError:
            return

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes."""
        self.close()


@dataclass(frozen=True)
class Results:
    """A results file as read: its lines by kind. `end` is None for an interrupted run."""

    run: Mapping[str, Any]
    claims: Mapping[str, Mapping[str, Any]]
    verdicts: Sequence[Mapping[str, Any]]
    end: Mapping[str, Any] | None
    notes: Sequence[str] = ()

    def of_verdict(self, *verdicts: str) -> list[Mapping[str, Any]]:
        """The verdict lines with one of these verdicts."""
        return [line for line in self.verdicts if line.get("verdict") in verdicts]


def read_results(path: Path) -> Results:
    """`results.jsonl`, or a folder that holds it. Raises `StoreError`.

    A truncated last line and a missing end are an interrupted run, read as far as it goes.
    """
    file = path / FILE if path.is_dir() else path
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise StoreError(
            f"{file} cannot be read: {error.strerror}; pass a results.jsonl or the folder of one"
        ) from None
    return parse_results(text.split("\n"), str(file))  # not splitlines: a text may hold U+2028


def _decoded(text: str) -> Any:
    """A line's JSON. Raises `ValueError` or `RecursionError`."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        # Slower by half, and takes what writers in Python write beyond JSON: NaN, half a surrogate pair.
        return json.loads(text)


def parse_results(lines: Iterable[str], name: str) -> Results:
    """Lines of a results file. Raises `StoreError` where the first is no run line."""
    run: Mapping[str, Any] | None = None
    claims: dict[str, Mapping[str, Any]] = {}
    verdicts: list[Mapping[str, Any]] = []
    end: Mapping[str, Any] | None = None
    notes: list[str] = []
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            line = _decoded(text)
        except (ValueError, RecursionError):
            notes.append(f"line {number} is cut off or no JSON; it and what follows are left out")
            break
        kind = line.get("kind") if isinstance(line, dict) else None
        if run is None:
            if kind != "run":
                raise StoreError(
                    f"{name} line {number} is no run line: this is no results file of conformance"
                )
            run = line
            schema = line.get("schema")
            if schema != SCHEMA:
                which = "a newer" if isinstance(schema, int) and schema > SCHEMA else "another"
                notes.append(f"written by {which} version (schema {schema!r}); read as far as it is known")
        elif kind == "run":
            # Two files in one: verdicts of different runs, perhaps of different packs, are not to be mixed.
            notes.append(f"line {number} begins another run; it and what follows are left out")
            break
        elif kind == "claim" and isinstance(line.get("id"), str):
            claims[line["id"]] = line
        elif kind == "verdict":
            verdicts.append(line)
        elif kind == "end":
            end = line
        else:
            notes.append(
                f"line {number} is of an unknown kind {str(kind)[:40]!r}, or incomplete; it is left out"
            )
    if run is None:
        raise StoreError(f"{name} is empty: this is no results file of conformance")
    return Results(run, claims, tuple(verdicts), end, tuple(notes))
