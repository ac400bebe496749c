"""Graphs, built once a session each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from graphs.exported import Export, write


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Export], Path]:
    """An export by its description."""
    folder = tmp_path_factory.mktemp("exported")
    made: dict[Export, Path] = {}

    def of(export: Export) -> Path:
        pytest.importorskip("torch")
        pytest.importorskip("transformers")
        pytest.importorskip("onnxscript")
        if export not in made:
            made[export] = write(export, folder)
        return made[export]

    return of
