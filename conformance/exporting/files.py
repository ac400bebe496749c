"""Writing a model: checked first, and under its name only when it is whole."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.exporting.names import PAST
from conformance.language.program import Text

if TYPE_CHECKING:
    import onnx

PAST_NAMES = "past_key_values."


@dataclass(frozen=True)
class Step:
    """One thing that was done with an export, whether it went well, and what there is to say."""

    name: str
    passed: bool
    said: Text
    seconds: float = 0.0

    def line(self, lang: str) -> str:
        """A line for the terminal."""
        fails = {"en": "FAILS: ", "zh": "不通过："}[lang]
        return f"{self.name:<10}{'' if self.passed else fails}{getattr(self.said, lang)}"

    def __str__(self) -> str:
        """The same in English."""
        return self.line("en")


PASSES = Text("passes", "通过")


def both(text: str) -> Text:
    """What somebody else says, such as a runtime: in both languages as it is."""
    return Text(text, text)


def checked(model: onnx.ModelProto | Path) -> str:
    """What ONNX's checker and strict shape inference have against a model; '' for nothing."""
    import onnx
    from onnx.checker import ValidationError
    from onnx.shape_inference import InferenceError

    try:
        if isinstance(model, Path):
            onnx.checker.check_model(str(model), full_check=True)
        else:
            onnx.checker.check_model(model, full_check=True)
    except (ValidationError, InferenceError) as error:
        return str(error).strip().splitlines()[0][:300]
    return ""


def data_file(path: Path) -> Path:
    """Where the weights of a model stand that keeps them apart."""
    return path.with_name(path.name + ".data")


def write(model: onnx.ModelProto, path: Path, external: bool) -> None:
    """The model under its name, all at once; with `external` its weights beside it. Raises `OSError`."""
    import onnx

    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".export-", dir=path.parent) as name:
        file = Path(name) / path.name
        if external:
            onnx.save_model(
                model,
                str(file),
                save_as_external_data=True,
                all_tensors_to_one_file=True,
                location=data_file(path).name,
                size_threshold=0,
            )
        else:
            onnx.save_model(model, str(file))
        moved(file, path)


def replaced(path: Path, save: Callable[[Path], None]) -> None:
    """What `save` writes takes the place of `path` once it is whole. Raises `OSError`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        save(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def moved(file: Path, path: Path) -> None:
    """A file, and its weights if they stand beside it, to where they belong, in place of an earlier export.

    Weights that the earlier file kept apart go with it. Raises `OSError`.
    """
    stale = data_file(path).is_file() and _refers_to(path, data_file(path).name)
    apart = data_file(file).is_file()
    if apart:
        data_file(file).replace(data_file(path))
    file.replace(path)
    if stale and not apart:
        data_file(path).unlink()


def _refers_to(path: Path, name: str) -> bool:
    """Whether a model keeps weights in a file of that name beside it."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # it has none

    try:
        model = onnx.load(str(path), load_external_data=False)
    except (OSError, DecodeError):
        return False
    return any(
        entry.key == "location" and entry.value == name
        for tensor in model.graph.initializer
        for entry in tensor.external_data
    )


def tidied(file: Path, metadata: Mapping[str, str]) -> None:
    """Call free sizes by what they are, and take out what an exporter noted of where each node comes from.

    Those notes are paths of its machine, and most of a small file. `metadata` is what the file says of itself instead.
    """
    import onnx

    model = onnx.load(str(file), load_external_data=False)
    for part in (model.graph, *model.functions):
        for message in (part, *part.node, *part.value_info):
            message.ClearField("metadata_props")
        for node in part.node:
            node.ClearField("doc_string")
    onnx.helper.set_model_props(model, dict(metadata))
    names: dict[str, str] = {}
    graph = model.graph
    cached = any(value.name.startswith(PAST_NAMES) for value in graph.input)
    total = f"{PAST} + query" if cached else "query"
    for value in (*graph.input, *graph.output):
        value.ClearField("metadata_props")
        length = PAST if value.name.startswith(PAST_NAMES) else "query"
        length = total if value.name == "attention_mask" or value.name.startswith("present.") else length
        length = value.name if value.name == "source" else length
        for i, dimension in enumerate(value.type.tensor_type.shape.dim):
            if dimension.HasField("dim_param"):
                name = "batch" if i == 0 else length
                if dimension.dim_param.isidentifier():
                    names.setdefault(dimension.dim_param, name)
                dimension.dim_param = name
    for value in graph.value_info:
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.HasField("dim_param"):
                words = re.sub(r"[A-Za-z_]\w*", lambda word: names.get(word[0], word[0]), dimension.dim_param)
                dimension.dim_param = words
    for value in graph.initializer:
        value.ClearField("metadata_props")
    replaced(file, lambda temporary: onnx.save_model(model, str(temporary)))
