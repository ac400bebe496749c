"""A PyTorch module handed to its exporter, in a process of its own, and what it gave for inputs that are asked about."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conformance.exporting.agreement import CACHED, PLAIN, Sizes
from conformance.exporting.files import tidied
from conformance.exporting.made import ExportError, Model
from conformance.exporting.program import declaration
from conformance.judging.observe import config
from conformance.language.arithmetic import Array, Float64
from conformance.locations import bundled
from conformance.onnx.own_words import words
from conformance.pack.model import Pack, Variant
from conformance.plan.variants import resolve
from conformance.session import Limits, Session
from conformance.targets import MODULES, Target

OPSET = 18
"""The default. It runs at every batch size, and every mask is a plain one; see docs/exporting.md for 23 and 24."""


class ExporterFailed(Exception):
    """The exporter, or the module itself, refuses; the reason in one line."""


@dataclass(frozen=True)
class Request:
    """What is to be exported: a target's module with the weights of `made`."""

    target: Target
    made: Model
    cache: bool
    dtype: str
    opset: int
    external: bool
    python: str | None
    timeout: float
    output: Path
    """Where the file goes while it is looked at: its name is the one that it keeps, for its weights refer to it."""


@dataclass(frozen=True)
class Exported:
    """What came of it: the file, how long its making took, and the module's own logits by sizes and call."""

    file: Path
    seconds: float
    parameters: int
    logits: Mapping[Sizes, Sequence[Array]]


def variant_of_module(
    pack: Pack, target: Target, asked: str | None, python: str | None, limits: Limits
) -> Variant:
    """The variant that a module is. Raises `ExportError` for what is no module, and as a session that opens."""
    if target.path != bundled("adapters") / f"{MODULES}.py":
        raise ExportError(
            f"{target.name} is no PyTorch module; write `hf:CLASS`, or `pytorch my_file.py:GPT --map map.yaml`"
        )
    given = json.loads(target.arguments[1])
    declared = given["map"]["variant"]
    if given["hub"]:
        # Which variant a config.json describes, the library's own classes know.
        with Session(
            target.path, names=["Model"], python=python, limits=limits, arguments=target.arguments
        ) as session:
            variants: Sequence[Any] = session.open().variants
    else:
        variants = declared if isinstance(declared, list) else [declared]
    return resolve(pack, variants, [asked] if asked else []).variants[0]


def exported(request: Request, folder: Path, log: Path) -> Exported:
    """Run the exporter. Raises `ExporterFailed`; all that was printed is in `log`."""
    tries = CACHED if request.cache else PLAIN
    scenario = request.made.scenario()
    weights = folder / "weights.npz"
    arrays: dict[str, Any] = {name: tensor.array for name, tensor in scenario.parameters.items()}
    np.savez(weights, **arrays)
    asked = {
        "module": request.target.arguments[0],
        "given": json.loads(request.target.arguments[1]),
        "config": config(scenario),
        "weights": str(weights),
        "dtype": request.dtype,
        "cache": request.cache,
        "opset": request.opset,
        "external": request.external,
        "output": str(request.output),
        "calls": [
            str(_calls(request.made, sizes, folder / f"calls-{i}.npz")) for i, sizes in enumerate(tries)
        ],
        "folder": str(folder),
    }
    answer = asked_of("export.py", asked, folder, log, request.python, request.timeout)
    if answer["stage"] != "done":
        where = {
            "build": "the module cannot be built",
            "run": "the module does not run",
            "export": "PyTorch's exporter refuses it",
        }[answer["stage"]]
        raise ExporterFailed(f"{where}: {answer['error']}")
    tidied(request.output, words(declaration(request.made.pack, request.made.variant), {}))
    logits = {}
    for i, sizes in enumerate(tries):
        with np.load(folder / f"source-{i}.npz", allow_pickle=False) as given:
            logits[sizes] = [given[f"logits/{step}"] for step in range(len(given.files))]
    return Exported(request.output, float(answer["seconds"]), int(answer["parameters"]), logits)


def _calls(made: Model, sizes: Sizes, file: Path) -> Path:
    """The inputs of the calls of one try, as the program has them, its defaults included."""
    scenario = made.scenario(*sizes)
    read = scenario.read(Float64(), inner=True)
    arrays: dict[str, Any] = {"steps": np.asarray(len(read))}
    for step, tensors in enumerate(read):
        for name in scenario.pack.program.functions[scenario.function].given:
            value = tensors.inner[f"{scenario.function}.{name}~1"]
            array = value.array if value.axes[0] == "batch" else value.array[None]
            rows = np.broadcast_to(array, (sizes[0], array.shape[1]))
            arrays[f"{name}/{step}"] = np.ascontiguousarray(rows, np.int64)
    np.savez(file, **arrays)
    return file


def asked_of(
    name: str, asked: Mapping[str, Any], folder: Path, log: Path, python: str | None, timeout: float
) -> dict[str, Any]:
    """The answer of a process that has PyTorch, to a script of the module maps. Raises `ExporterFailed`."""
    (folder / "request.json").write_text(json.dumps(asked), encoding="utf-8")
    (folder / "answer.json").unlink(missing_ok=True)
    script = bundled("adapters") / "module_map" / name
    python = python or sys.executable
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1"}
    try:
        with log.open("w", encoding="utf-8") as file:
            subprocess.run(
                [python, str(script), str(folder / "request.json")],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
                env=environment,
            )
    except OSError as error:
        raise ExportError(f"--python {python}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ExporterFailed(f"it was not done after {timeout:g} s; --timeout gives it longer") from None
    answer = folder / "answer.json"
    if answer.is_file():
        found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        return found
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    absent = re.search(r"No module named '(torch|numpy)'", lines[-1] if lines else "")
    if absent is not None:
        raise ExporterFailed(f"{python} has no {absent[1]}; name an interpreter that has it with --python")
    raise ExporterFailed(f"the exporting process died: {lines[-1][:300] if lines else 'it said nothing'}")
