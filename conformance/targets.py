"""What `TARGET` names: a file, a bundled adapter with its arguments, or the program itself."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.language.errors import suggestion
from conformance.locations import bundled


class TargetUsageError(ValueError):
    """The command line names no target that can be graded; says what was found and what to pass."""


class TargetMissing(TargetUsageError):
    """The named file does not exist: there is nothing to grade."""


@dataclass(frozen=True)
class Target:
    """A target: how reports call it, the adapter file, and what that file is given."""

    name: str
    path: Path
    arguments: tuple[str, ...] = ()
    model: Path | None = None
    """An ONNX file, which `path` runs."""
    names: Mapping[str, Any] = field(default_factory=dict)
    """Of an ONNX file's inputs and outputs, as a map says them."""


def resolve_target(words: Sequence[str]) -> Target:
    """The target that the words of the command line name.

    Raises `TargetMissing` for a file that is not there and `TargetUsageError` for the rest.
    """
    first, *rest = words
    path = Path(first)
    if path.suffix == ".py":
        if rest:
            raise TargetUsageError(f"{first} takes no further arguments; got {' '.join(rest)}")
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "does not exist"
            raise TargetMissing(f"{first} {what}{_nearby(path)}")
        return Target(first, path.resolve())
    if path.suffix == ".onnx":
        if rest:
            raise TargetUsageError(f"{first} takes no further arguments; got {' '.join(rest)}")
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "does not exist"
            raise TargetMissing(f"{first} {what}")
        return Target(first, bundled("adapters") / "onnx_model.py", model=path.absolute())
    if first.startswith("hf:") or first == "program":
        raise TargetUsageError(
            f"{first}: this version grades adapter files (.py), ONNX files and bundled adapters; "
            "hf: models and the program itself are not targets of `run` yet"
        )
    folder = bundled("adapters")
    known = sorted(
        p.stem for p in folder.glob("*.py") if not p.stem.startswith("onnx_")
    )  # they are given a file, see above
    if first in known:
        return Target(" ".join(words), folder / f"{first}.py", tuple(rest))
    near = suggestion(first, known)
    if path.exists() or path.suffix or "/" in first:
        raise TargetMissing(
            f"{first} is no .py file" if path.exists() else f"{first} does not exist{_nearby(path)}"
        )
    raise TargetUsageError(
        f"'{first}' is neither a file nor a bundled adapter ({', '.join(known)})"
        + (f"; {near}" if near else "")
    )


def _nearby(path: Path) -> str:
    """What was probably meant. Names are compared without `.py`, which makes any two alike."""
    try:
        stems = [p.stem for p in path.parent.glob("*.py") if p.is_file()]
    except OSError:
        return ""
    close = difflib.get_close_matches(path.stem, stems, n=1)
    return f"; did you mean '{path.with_name(close[0] + '.py')}'?" if close else ""
