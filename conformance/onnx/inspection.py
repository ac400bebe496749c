"""The facts of an ONNX file, read in a process with limits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from conformance.onnx.child import ask
from conformance.onnx.facts import GraphFacts


def inspect(path: Path, names: Mapping[str, Any] | None = None) -> GraphFacts:
    """What a graph does; `names` are those of a `--map` file.

    Raises `Unreadable` and `ReadingFailed`.
    """
    answer = ask("inspect", {"path": str(path.absolute()), "names": dict(names or {})})
    return msgspec.convert(answer, GraphFacts)
