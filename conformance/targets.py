"""What `TARGET` names: a file, a bundled adapter with its arguments, or the program itself."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.language.errors import suggestion
from conformance.locations import bundled

if TYPE_CHECKING:
    from conformance.onnx.ahead import Ahead
    from conformance.pack.model import Pack

MODULES = "pytorch"
"""The bundled adapter that grades any `torch.nn.Module` by a map."""

PROGRAM = "program"
"""The program of the pack itself, read in the dtype."""
NEEDS = {"cs336": "the file to grade: cs336 tests/adapters.py"}
"""What a bundled adapter cannot do without."""


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
    program: bool = False
    """Whether it is the program of the pack itself; `path` is then the pack's folder."""
    names: Mapping[str, Any] = field(default_factory=dict)
    """Of an ONNX file's inputs and outputs, as a map says them."""
    ahead: Ahead | None = None
    """What is reading the ONNX file already, where something is."""
    among: bool = False
    """Whether the file is one among files of others, see `Session`."""


def resolve_target(words: Sequence[str], map_file: Path | None = None, pack: Pack | None = None) -> Target:
    """The target that the words of the command line name.

    `map_file` is the `--map` of a module; on the cases of `pack` it is tried. Raises `TargetMissing`
    for a file that is not there, `PackError` for a faulty map and `TargetUsageError` for the rest.
    """
    first, *rest = words
    path = Path(first)
    if first == MODULES or first.startswith("hf:"):
        return _module_target(words, map_file, pack)
    if path.suffix == ".onnx":
        return _graph_target(words, map_file)
    if map_file is not None:
        raise TargetUsageError(
            f"--map is of modules (`pytorch FILE:CLASS`, `hf:CLASS`) and ONNX files; {first} takes none"
        )
    if path.suffix == ".py":
        if rest:
            raise TargetUsageError(f"{first} takes no further arguments; got {' '.join(rest)}")
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "does not exist"
            raise TargetMissing(f"{first} {what}{_nearby(path)}")
        return Target(first, path.resolve())
    if first == PROGRAM:
        if rest:
            raise TargetUsageError(
                f"program takes no further arguments; got {' '.join(rest)} (see --variant)"
            )
        return Target(first, bundled("spec"), program=True)
    folder = bundled("adapters")
    known = sorted(
        p.stem for p in folder.glob("*.py") if not p.stem.startswith("onnx_")
    )  # they are given a file, see above
    if first in known:
        if first in NEEDS and not (len(rest) == 1 and rest[0].endswith(".py")):
            raise TargetUsageError(f"{first} needs {NEEDS[first]}")
        return Target(" ".join(words), folder / f"{first}.py", tuple(map(_argument, rest)))
    near = suggestion(first, known)
    if path.exists() or path.suffix or "/" in first:
        raise TargetMissing(
            f"{first} is no .py file" if path.exists() else f"{first} does not exist{_nearby(path)}"
        )
    raise TargetUsageError(
        f"'{first}' is neither a file nor a bundled adapter ({', '.join(known)})"
        + (f"; {near}" if near else "")
    )


def _module_target(words: Sequence[str], map_file: Path | None, pack: Pack | None) -> Target:
    from conformance.maps.target import module_arguments

    named = words[1:] if words[0] == MODULES else words
    if not named:
        raise TargetUsageError("pytorch needs a module: pytorch my_file.py:GPT --map map.yaml")
    adapter = bundled("adapters") / f"{MODULES}.py"
    return Target(" ".join(words), adapter, module_arguments(named, map_file, pack))


def _graph_target(words: Sequence[str], map_file: Path | None) -> Target:
    from conformance.onnx.maps import read_map

    first, *rest = words
    if rest:
        raise TargetUsageError(f"{first} takes no further arguments; got {' '.join(rest)}")
    path = Path(first)
    if not path.is_file():
        raise TargetMissing(f"{first} {'is a folder' if path.is_dir() else 'does not exist'}")
    names = read_map(map_file) if map_file is not None else {}
    return Target(first, bundled("adapters") / "onnx_model.py", model=path.absolute(), names=names)


def _argument(word: str) -> str:
    """An argument of a bundled adapter; a file's path from the root, since the target runs elsewhere.

    Raises `TargetMissing` for a Python file that is not there.
    """
    name, colon, rest = word.partition(":") if ".py:" in word else (word, "", "")
    path = Path(name)
    if path.exists():
        return f"{path.resolve()}{colon}{rest}"
    if path.suffix == ".py":
        raise TargetMissing(f"{name} does not exist{_nearby(path)}")
    return word


def _nearby(path: Path) -> str:
    """What was probably meant. Names are compared without `.py`, which makes any two alike."""
    try:
        stems = [p.stem for p in path.parent.glob("*.py") if p.is_file()]
    except OSError:
        return ""
    close = difflib.get_close_matches(path.stem, stems, n=1)
    return f"; did you mean '{path.with_name(close[0] + '.py')}'?" if close else ""
