"""A checkpoint of a module, read in a process of its own, as the weights of what is exported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from conformance.exporting.made import ExportError, Model
from conformance.exporting.module import ExporterFailed, asked_of
from conformance.judging.observe import config
from conformance.plan.own import Own
from conformance.targets import Target

WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
LEAST_MEMORY_MB = 8192
COPIES = 8
"""How often the weights may stand in memory while they are read: in float64, in several forms."""


def weights_of_folder(words: str) -> Path | None:
    """The folder that `hf:PATH` names, where weights stand in it beside the config."""
    path = Path(words.removeprefix("hf:"))
    return path if path.is_dir() and any(any(path.glob(pattern)) for pattern in WEIGHTS) else None


def with_weights(
    made: Model, target: Target, checkpoint: Path, folder: Path, log: Path, python: str | None, timeout: float
) -> Model:
    """A model with the weights and the sizes of a checkpoint; sizes that were asked for come first.

    Raises `ExportError` for one that is not there or not of this module, `ExporterFailed` where reading it dies.
    """
    if not checkpoint.exists():
        raise ExportError(f"--weights {checkpoint}: there is no such file")
    files = checkpoint.iterdir() if checkpoint.is_dir() else [checkpoint]
    megabytes = sum(file.stat().st_size for file in files if file.is_file()) >> 20
    asked: dict[str, Any] = {
        "module": target.arguments[0],
        "given": json.loads(target.arguments[1]),
        "checkpoint": str(checkpoint.absolute()),
        "memory_mb": LEAST_MEMORY_MB + COPIES * megabytes,
        "folder": str(folder),
        "sizes": dict(made.sizes),
    }
    said = _answer(asked_of("checkpoint.py", asked, folder, log, python, timeout), checkpoint)
    sizes = said["sizes"]
    sized = replace(made, sizes=sizes, own=Own(sizes, {}))
    scenario = sized.scenario()
    file = folder / "checkpoint.npz"
    asked |= {
        "config": config(scenario),
        "shapes": {name: list(tensor.array.shape) for name, tensor in scenario.parameters.items()},
        "weights": str(file),
    }
    _answer(asked_of("checkpoint.py", asked, folder, log, python, timeout), checkpoint)
    with np.load(file, allow_pickle=False) as arrays:
        return replace(sized, own=Own(sizes, {name: arrays[name] for name in arrays.files}))


def _answer(answer: Mapping[str, Any], checkpoint: Path) -> Mapping[str, Any]:
    if answer["stage"] == "done":
        return answer
    if answer["stage"] == "checkpoint":
        raise ExportError(f"--weights {checkpoint}: {answer['error']}")
    raise ExporterFailed(f"the module cannot be filled with {checkpoint}: {answer['error']}")
