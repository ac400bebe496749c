"""An ONNX file that is read while something else is done: this process imports its libraries and reads the pack."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.onnx.child import ask


@dataclass(frozen=True)
class Ahead:
    """A file that another process is reading, and the folder where it leaves what is needed."""

    folder: str
    answer: Future[Any]


@contextmanager
def reading_ahead(model: Path, names: Mapping[str, Any]) -> Iterator[Ahead]:
    """Has a file read while this process does something else; its folder lasts as long as the context."""
    with (
        tempfile.TemporaryDirectory(prefix="conformance-onnx-", ignore_cleanup_errors=True) as folder,
        ThreadPoolExecutor(1) as pool,
    ):
        request = {"path": str(model.absolute()), "names": dict(names), "folder": folder}
        yield Ahead(folder, pool.submit(ask, "prepare", request, memory_mb=8192))
