"""An ONNX file as a target: read in a process with limits, then run by the bundled adapter."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from conformance.language.arithmetic import Array
from conformance.locations import bundled
from conformance.onnx.ahead import Ahead, reading_ahead
from conformance.onnx.child import ReadingFailed
from conformance.onnx.facts import GraphFacts
from conformance.onnx.folding import looks_folded, unfolded
from conformance.onnx.maps import FOLDED
from conformance.onnx.reading import Unreadable
from conformance.plan.own import Own
from conformance.results.records import Place
from conformance.serving import Served
from conformance.session import TargetError

ADAPTER = "onnx_model.py"
LACKING = ("not a registered function", "No Op registered", "Could not find an implementation")
"""What onnxruntime says of operators that it does not have."""
OPERATION_ADAPTER = "onnx_operation.py"


@dataclass(frozen=True)
class Graph:
    """What is known of a graph that is graded."""

    facts: GraphFacts
    own: Own
    taps: Mapping[str, Place]
    """Where each of the document's tensors is made."""
    variant: Any


@contextmanager
def serving_onnx(model: Path, names: Mapping[str, Any], ahead: Ahead | None = None) -> Iterator[Served]:
    """An ONNX file made ready for a session, as long as the context lasts; `ahead` is reading it already.

    Raises `TargetError` where it cannot be read or has no tokens or logits that are recognised.
    """
    with ExitStack() as stack:
        ahead = ahead or stack.enter_context(reading_ahead(model, names))
        folder = ahead.folder
        try:
            answer = ahead.answer.result()
        except Unreadable as error:
            raise TargetError(f"{model.name}: {error.message}", error.hint) from None
        except ReadingFailed as failed:
            raise TargetError(f"{model.name}: {failed}", "a graph is read within limits") from None
        if answer["facts"] is None:
            yield Served(bundled("adapters") / OPERATION_ADAPTER, (str(model.absolute()), folder))
            return
        facts = msgspec.convert(answer["facts"], GraphFacts)
        recipe = json.loads((Path(folder) / "recipe.json").read_text(encoding="utf-8"))
        parameters = dict(_parameters(recipe, Path(folder)))
        declared = names.get("scale") == FOLDED
        if declared or looks_folded(facts, parameters):
            facts = unfolded(facts, recipe, declared=declared)
            (Path(folder) / "recipe.json").write_text(json.dumps(recipe), encoding="utf-8")
            parameters = dict(_parameters(recipe, Path(folder)))
        taps = {name: Place(node=tap["node"], op_type=tap["op_type"]) for name, tap in recipe["taps"].items()}
        inputs = recipe["inputs"]
        lacks = frozenset(
            name for name, key in (("cache", "past"), ("positions", "positions")) if not inputs[key]
        )
        own = Own(recipe["sizes"], parameters, tuple(recipe["missing"]), lacks, recipe["rounded"])
        adapter = bundled("adapters") / ADAPTER
        yield Served(
            adapter,
            (str(model.absolute()), folder),
            Graph(facts, own, taps, recipe["variant"]),
        )


def _parameters(recipe: Mapping[str, Any], folder: Path) -> Iterator[tuple[str, Array]]:
    """The file's weights by canonical name: in float64, or of a large file as they are stored."""
    raw: dict[str, Array] = {}
    for name, entries in recipe["parameters"].items():
        entry = entries[0]
        key = json.dumps(entry["file"])
        if key not in raw:
            raw[key] = stored(entry["file"], folder)
        array = raw[key].T if entry["transposed"] else raw[key]
        if entry["index"] is not None:
            flat = array if array.ndim == 2 else array.reshape(-1)
            array = _taken(flat, entry["index"], entry["axis"] if flat.ndim == 2 else 0)
        elif array.ndim > 2 or (array.ndim == 2 and array.shape[0] == 1 and not name.endswith("embed")):
            array = array.reshape(-1)
        if "factor" in entry:
            array = np.array(array, np.float64) / entry["factor"]
        yield name, array if recipe["large"] else np.array(array, np.float64)


def stored(file: str | Mapping[str, Any], folder: Path) -> Array:
    """A weight as it stands in a file, mapped: of the folder, or where the model itself has it."""
    if isinstance(file, str):
        return np.asarray(np.load(folder / file, allow_pickle=False, mmap_mode="r"))
    shape = tuple(file["shape"])
    return np.asarray(np.memmap(file["path"], file["dtype"], "r", file["offset"], shape))


def _taken(array: Array, index: Sequence[int], axis: int) -> Array:
    """Entries along an axis; a view where they stand side by side."""
    first, last = index[0], index[-1]
    if list(index) == list(range(first, last + 1)):
        return array[first : last + 1] if axis == 0 else array[:, first : last + 1]
    return np.take(array, index, axis=axis)


def runtime_error(error: TargetError, model: Path) -> TargetError:
    """What the runtime has against a file, without the adapter that it was said in."""
    message = error.message
    if "while it was imported" in message:
        reason = message.partition("while it was imported")[2].partition(": ")[2] or message
        kind = (
            " (an operator that it lacks, or has for other dtypes)"
            if any(words in reason for words in LACKING)
            else ""
        )
        first = reason.replace("[ONNXRuntimeError] : ", "").strip()
        return TargetError(
            f"{model.name}: onnxruntime cannot load it{kind}: {first[:400]}",
            "export it for an opset, operators and dtypes that onnxruntime has on a CPU (float32, float16); "
            "`conformance inspect` reads it all the same",
            error.printed,
        )
    return error
