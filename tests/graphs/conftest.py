"""Graphs, built once a session each."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from graphs.exported import Export, write


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Export], Path]:
    """An export by its description."""
    base = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):  # what one worker exports, the others find
        base = base.parent
    folder = base / "exported"
    folder.mkdir(exist_ok=True)

    def of(export: Export) -> Path:
        pytest.importorskip("torch")
        pytest.importorskip("transformers")
        pytest.importorskip("onnxscript")
        path = folder / export.name
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=folder) as own:
                made = write(export, Path(own), of)
                data = made.with_name(made.name + ".data")
                if data.exists():
                    data.replace(folder / data.name)
                made.replace(path)
        return path

    return of
