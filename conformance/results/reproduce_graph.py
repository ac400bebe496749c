"""A few lines that reproduce a failure of an ONNX file with onnxruntime alone: what it is fed, what it gives.

The adapter that the file was graded with is not needed. What it would feed is worked out by its own functions.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from conformance.language.arithmetic import Array
from conformance.locations import bundled
from conformance.results.records import Evidence, Place
from conformance.results.reproduce import Reproduction
from conformance.session import Call, ModelCall, OperationCall

FEEDS = "onnx_feeds.py"
LEVELS = ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_ALL")


@dataclass(frozen=True)
class GraphFile:
    """An ONNX file, and the folder in which the recipe of its grading lies."""

    model: Path
    folder: Path

    @property
    def recipe(self) -> Mapping[str, Any]:
        """What its inputs and outputs are."""
        found: Mapping[str, Any] = json.loads((self.folder / "recipe.json").read_text(encoding="utf-8"))
        return found


def look(graph: GraphFile, place: Place | None, says: str) -> str:
    """The node at which something was read; nothing is run."""
    lines = [
        "import onnx",
        f"model = onnx.load({str(graph.model)!r}, load_external_data=False)",
        f"# {says}",
    ]
    name = "" if place is None else place.node
    if not name:
        return "\n".join([*lines, "print(onnx.printer.to_text(model.graph))"])
    if name.startswith("→ "):
        return "\n".join([*lines, f"print(next(n for n in model.graph.node if {name[2:]!r} in n.output))"])
    return "\n".join([*lines, f"print([n for n in model.graph.node if n.name == {name!r}])"])


def graph_reproduction(
    graph: GraphFile, calls: Sequence[Call], dtype: str, folder: Path, file: str, evidence: Evidence | None, *,
    levels: bool = False,
) -> Reproduction:  # fmt: skip
    """How to make `calls` by hand; of an experiment, the one before and the one after the change.

    `folder` is where the array file will lie, `levels` whether each level of optimisation is to be tried.
    Raises `NotImplementedError` for a call that the file cannot take.
    """
    arrays: dict[str, Array] = {}
    body: list[str] = []
    tap = None if evidence is None else graph.recipe.get("taps", {}).get(evidence.tensor)
    for i, call in enumerate(calls):
        prefix = f"{i}/" if len(calls) > 1 else ""
        if isinstance(call, ModelCall):
            body += _model(graph, call, dtype, arrays, prefix, tap, evidence)
        elif isinstance(call, OperationCall):
            body += _operation(graph, call, dtype, arrays, prefix, evidence)
    if levels:
        head = ["options = onnxruntime.SessionOptions()"]
        body = [
            f"for level in {LEVELS!r}:",
            "    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)",
            *(f"    {line}" for line in body),
        ]
    else:
        head = ["options = None"]
    lines = [
        f"import numpy as np, {'onnx, ' if any('onnx.load' in line for line in body) else ''}onnxruntime",
        f"data = dict(np.load({str(folder / file)!r}))",
        *head,
        *body,
    ]
    if evidence is not None:
        place = ", ".join(str(i) for i in evidence.index.values())
        lines.append(
            f"# {evidence.tensor}[{place}] was {_number(evidence.got)}, expected {_number(evidence.expected)}"
        )
    return Reproduction("\n".join(lines), file, arrays)


def _number(value: float | bool | str) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _native(value: Any, dtype: str) -> Array:
    array = np.asarray(value)
    return array.astype({"bfloat16": "float32"}.get(dtype, dtype)) if array.dtype.kind == "f" else array


def _model(
    graph: GraphFile, call: ModelCall, dtype: str, arrays: dict[str, Array], prefix: str,
    tap: Mapping[str, Any] | None, evidence: Evidence | None,
) -> list[str]:  # fmt: skip
    recipe = graph.recipe
    lines = _session(graph, {name: _native(a, dtype) for name, a in call.params.items()}, arrays, prefix, tap)
    outputs = recipe["outputs"]
    present = [name for pair in outputs["present"] for name in pair]
    inputs = [entry["name"] for pair in recipe["inputs"]["past"] for entry in pair]
    wanted = [outputs["logits"], *present, *([tap["value"]] if tap is not None else [])]
    before = 0
    for i, step in enumerate(call.steps):
        values: dict[str, Any] = {name: np.asarray(value) for name, value in step.inputs.items()}
        batch, length = values["tokens"].shape
        first = not step.use_cache or not before
        past: Any = _feeds().empty_past(recipe, batch, call.config["n_kv_heads"], call.config["d_head"])
        if not first:
            past = [[np.zeros((*a.shape[:2], before, a.shape[3]), a.dtype) for a in pair] for pair in past]
        made = _feeds().model_feeds(
            recipe,
            values["tokens"],
            values.get("attention_mask"),
            values.get("positions"),
            past,
            0 if first else before,
        )
        for name, array in made.items():
            if name not in inputs or first:
                arrays[f"{prefix}{i}/{name}"] = array
        start = f"{prefix}{i}/"
        lines.append(f"feeds = {{k[{len(start)}:]: a for k, a in data.items() if k.startswith({start!r})}}")
        if inputs and not first:
            lines.append(f"feeds |= dict(zip({inputs!r}, results[1:], strict=False))")
        lines.append(f"results = session.run({wanted!r}, feeds)")
        lines += _shown(evidence, tap, batch, length)
        before += length if step.use_cache else 0
    return lines


def _shown(evidence: Evidence | None, tap: Mapping[str, Any] | None, batch: int, length: int) -> list[str]:
    """Prints the element that the verdict is about, where this call has it."""
    if evidence is None:
        return ["print(results[0])"]
    index = tuple(evidence.index.values())
    if tap is None and evidence.tensor != "logits":
        return ["print(results[0])"]
    lines = [f"value = results[{0 if tap is None else -1}]"]
    if tap is not None and tap["flat"]:
        lines.append(f"value = value.reshape({batch}, {length}, -1)")
    if tap is not None and tap["order"] is not None:
        lines.append(f"value = value.transpose({tuple(tap['order'])!r})")
    lines.append(f"if all(i < n for i, n in zip({index!r}, value.shape)): print(value[{index!r}])")
    return lines


def _session(
    graph: GraphFile, params: Mapping[str, Array], arrays: dict[str, Array], prefix: str, tap: Mapping[str, Any] | None
) -> list[str]:  # fmt: skip
    """Lines that make a session: of the file, or of a copy with other weights, or with one more output."""
    weights = _feeds().replaced(graph.recipe, graph.folder, params) if params else {}
    declared = [
        graph.recipe["outputs"]["logits"],
        *(n for p in graph.recipe["outputs"]["present"] for n in p),
    ]
    more = tap is not None and tap["value"] not in declared
    if not weights and not more:
        return [f"session = onnxruntime.InferenceSession({str(graph.model)!r}, options)"]
    lines = [f"model = onnx.load({str(graph.model)!r})"]
    for name, array in weights.items():
        arrays[f"{prefix}weight/{name}"] = array
    if weights:
        start = f"{prefix}weight/"
        lines += [
            "for w in model.graph.initializer:",
            f"    if {start!r} + w.name in data:",
            f"        w.CopyFrom(onnx.numpy_helper.from_array(data[{start!r} + w.name], w.name))",
        ]
    if more and tap is not None:
        lines.append(f"model.graph.output.append(onnx.ValueInfoProto(name={tap['value']!r}))")
    return [*lines, "session = onnxruntime.InferenceSession(model.SerializeToString(), options)"]


def _operation(
    graph: GraphFile, call: OperationCall, dtype: str, arrays: dict[str, Array], prefix: str, evidence: Evidence | None
) -> list[str]:  # fmt: skip
    operation = graph.recipe["operation"]
    given = {
        name: _native(value, dtype) if isinstance(value, np.ndarray) else value
        for name, value in call.arguments.items()
    }
    for name, array in _feeds().operation_feeds(operation, given).items():
        arrays[f"{prefix}0/{name}"] = array
    start = f"{prefix}0/"
    lines = [
        f"session = onnxruntime.InferenceSession({str(graph.model)!r}, options)",
        f"feeds = {{k[{len(start)}:]: a for k, a in data.items() if k.startswith({start!r})}}",
        f"output = session.run([{operation['output']!r}], feeds)[0]",
    ]
    shape = _feeds().operation_shape(operation, given)
    if shape is not None:
        lines.append(f"output = output.reshape({shape!r}).transpose(0, 2, 1, 3)")
    index = () if evidence is None or evidence.tensor != "output" else tuple(evidence.index.values())
    return [*lines, f"print(output[{index!r}])" if index else "print(output)"]


@cache
def _feeds() -> Any:
    """The adapters' functions: they stand beside the adapters, which import nothing of ours."""
    path = bundled("adapters") / FEEDS
    spec = importlib.util.spec_from_file_location("conformance_onnx_feeds", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
