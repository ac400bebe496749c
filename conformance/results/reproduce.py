"""A few lines that reproduce a failure without this tool: NumPy, the target's file, one array file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conformance.language.arithmetic import Array
from conformance.results.records import Evidence
from conformance.session import Call, ModelCall, OperationCall


@dataclass(frozen=True)
class Reproduction:
    """The snippet, and the arrays that it loads from `file` (a name, without a folder)."""

    text: str
    file: str
    arrays: Mapping[str, Array]


def reproduction(
    call: Call,
    target: Path,
    framework: str,
    dtype: str,
    folder: Path,
    file: str,
    evidence: Evidence | None,
    given: Sequence[str] = (),
) -> Reproduction:
    """How to make `call` by hand. `folder` is where the array file will lie, `given` the adapter's arguments."""
    arrays: dict[str, Array] = {}
    lines = [
        "import importlib.util, types",
        "import numpy as np",
        *((f"import sys; sys.argv[1:] = {list(given)!r}",) if given else ()),
        f"spec = importlib.util.spec_from_file_location('target', {str(target)!r})",
        "target = importlib.util.module_from_spec(spec); spec.loader.exec_module(target)",
        f"data = dict(np.load({str(folder / file)!r}))",
    ]
    if framework == "torch":
        lines += [
            "import torch",
            f"data = {{name: torch.from_numpy(a) if a.dtype.kind != 'f' else torch.from_numpy(a).to(torch.{dtype}) for name, a in data.items()}}",
        ]
    if isinstance(call, ModelCall):
        lines += _model(call, dtype, arrays)
    else:
        lines += _operation(call, dtype, arrays)
    if evidence is not None:
        place = ", ".join(str(i) for i in evidence.index.values())
        lines.append(f"# {evidence.tensor}[{place}] was {evidence.got:.9g}, expected {evidence.expected:.9g}")
        if "." not in evidence.tensor and evidence.tensor in ("output", "logits", "weights"):
            lines.append(f"print({evidence.tensor}[{place}])")
    return Reproduction("\n".join(lines), file, arrays)


def _native(value: Array, dtype: str) -> Array:
    kind = value.dtype.kind
    return value.astype({"bfloat16": "float32"}.get(dtype, dtype)) if kind == "f" else value


def _operation(call: OperationCall, dtype: str, arrays: dict[str, Array]) -> list[str]:
    arguments = []
    lines = []
    for name, value in call.arguments.items():
        if isinstance(value, np.ndarray):
            arrays[name] = _native(value, dtype)
            arguments.append(f"{name}=data[{name!r}]")
        elif isinstance(value, Mapping):
            for key, array in value.items():
                if isinstance(array, np.ndarray):
                    arrays[f"{name}/{key}"] = _native(array, dtype)
            lines.append(
                f"{name} = {{k[{len(name) + 1}:]: v for k, v in data.items() if k.startswith('{name}/')}}"
            )
            arguments.append(f"{name}={name}")
        else:
            arguments.append(f"{name}={value!r}")
    if call.config is not None:
        lines.append(f"config = types.SimpleNamespace(**{dict(call.config)!r})")
        arguments.append("config=config")
    lines.append(f"output = target.{call.function}({', '.join(arguments)})")
    if "weights" in call.outputs:
        lines.append("output, weights = output if isinstance(output, tuple) else (output, None)")
    return lines


def _model(call: ModelCall, dtype: str, arrays: dict[str, Array]) -> list[str]:
    for key, weights in call.params.items():
        arrays[f"params/{key}"] = _native(np.asarray(weights), dtype)
    lines = [
        "params = {k[7:]: v for k, v in data.items() if k.startswith('params/')}",
        f"config = types.SimpleNamespace(**{dict(call.config)!r})",
        "model = target.Model(config, params)",
    ]
    cached = any(step.use_cache for step in call.steps)
    if cached:
        lines.append("cache = None")
    for i, step in enumerate(call.steps):
        arguments = []
        for name, value in step.inputs.items():
            array: Any = value
            arrays[f"{name}/{i}"] = _native(np.asarray(array), dtype)
            arguments.append(f"{name}=data['{name}/{i}']")
        if cached:
            lines.append(f"logits, cache = model.forward({', '.join(arguments)}, cache=cache)")
        else:
            lines.append(f"logits = model.forward({', '.join(arguments)})")
    return lines
