"""JSON schemas of a pack's files, so that editors complete and check them.

They are generated from the structs that loading uses, and describe the same form: what loads is
valid, and what is invalid does not load. `python -m conformance.pack.schemas` writes them to
`spec/schema/`; a test says when they are not current. Each YAML file names its own in its first line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from conformance.locations import bundled
from conformance.maps.documents import MapDocument
from conformance.pack import documents as d
from conformance.pack.model import DTYPES, LEVELS, RUNGS

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class AxesFile(d.Document, frozen=True):
    """axes.yaml: every axis that a tensor can have."""

    axes: dict[str, d.AxisDocument]


class TensorsFile(d.Document, frozen=True):
    """tensors.yaml: the names by which tensors are known in taps, reports and claims."""

    tensors: dict[str, d.TensorDocument]


class VariantsFile(d.Document, frozen=True):
    """variants.yaml: the free choices of the document, and the variants that have a name."""

    choices: dict[str, d.ChoiceDocument]
    variants: dict[str, dict[str, d.Scalar]]


class ProgramFile(d.Document, frozen=True):
    """A file under program/: functions of the forward pass."""

    functions: dict[str, d.FunctionDocument]


class MistakesFile(d.Document, frozen=True):
    """A file under mistakes/: named patches of the program."""

    mistakes: list[d.MistakeDocument]


class OperationsFile(d.Document, frozen=True):
    """operations.yaml: what a target may offer."""

    operations: dict[str, d.OperationDocument]


class CasesFile(d.Document, frozen=True):
    """A file under cases/: sizes, inputs and parameters on which claims are decided."""

    cases: list[d.CaseDocument]


class ClaimsFile(d.Document, frozen=True):
    """A file under claims/: the claims of one question."""

    question: str
    claims: list[d.ClaimDocument]


class StatementsFile(d.Document, frozen=True):
    """statements.yaml: the document, statement by statement."""

    statements: dict[str, d.StatementDocument]


FILES: dict[str, type[msgspec.Struct]] = {
    "axes": AxesFile,
    "tensors": TensorsFile,
    "variants": VariantsFile,
    "program": ProgramFile,
    "mistakes": MistakesFile,
    "operations": OperationsFile,
    "cases": CasesFile,
    "claims": ClaimsFile,
    "statements": StatementsFile,
    "pack": d.PackDocument,
    "map": MapDocument,
}
"""Each kind of file by the name of the file or of its folder; a map is no part of a pack."""

# What loading asks beyond the types of the structs, where its own messages say it better.
_VALUES: dict[tuple[str, str], tuple[str, ...]] = {
    ("OperationDocument", "rung"): RUNGS,
    ("ClaimDocument", "rung"): RUNGS,
    ("ClaimDocument", "level"): LEVELS,
    ("CaseDocument", "dtypes"): DTYPES,
    ("StatementDocument", "settled"): ("T", "I", "S"),
    ("ChoiceDocument", "number"): ("positive", "fraction", "whole"),
}
_EXACTLY_ONE: dict[str, tuple[str, ...]] = {
    "ClaimDocument": d.KINDS,
    "DrawDocument": ("normal", "integers", "values", "is", "left_padding", "tokens", "start"),
}
_ONE_AT_LEAST: dict[str, tuple[str, ...]] = {"ChoiceDocument": ("values", "number")}


def schema(kind: str) -> dict[str, Any]:
    """The JSON schema of one kind of file; `kind` is a key of `FILES`."""
    file = FILES[kind]
    (top,), components = msgspec.json.schema_components([file], ref_template="#/$defs/{name}")
    definitions = {name: _refined(name, definition) for name, definition in sorted(components.items())}
    if kind == "variants":
        _variant(definitions)
    head = definitions[file.__name__]
    return {
        "$schema": DIALECT,
        "title": head["title"],
        "description": head["description"],
        **top,
        "$defs": definitions,
    }


def _refined(name: str, definition: dict[str, Any]) -> dict[str, Any]:
    refined = {**_short(definition), "title": name.removesuffix("Document").removesuffix("File")}
    for field, described in refined["properties"].items():
        values = _VALUES.get((name, field))
        if values and described.get("type") == "array":
            described["items"]["enum"] = list(values)
        elif values:
            described["enum"] = list(values)
            described.pop("default", None)
    if name in _EXACTLY_ONE:
        refined["oneOf"] = [{"required": [field]} for field in _EXACTLY_ONE[name]]
    if name in _ONE_AT_LEAST:
        refined["anyOf"] = [{"required": [field]} for field in _ONE_AT_LEAST[name]]
    return refined


def _short(node: Any) -> Any:
    """A schema in which a choice of plain types is one line rather than a dozen."""
    if isinstance(node, list):
        return [_short(item) for item in node]
    if not isinstance(node, dict):
        return node
    options = node.get("anyOf", ())
    if options and all(set(option) == {"type"} for option in options):
        rest = {key: value for key, value in node.items() if key != "anyOf"}
        return {"type": [option["type"] for option in options], **rest}
    return {key: _short(value) for key, value in node.items()}


def _variant(definitions: dict[str, Any]) -> None:
    """A variant has a text, and a value for any choice: a form that no struct has."""
    variants = definitions["VariantsFile"]["properties"]["variants"]
    value = variants["additionalProperties"]["additionalProperties"]
    texts = msgspec.json.schema_components([d.TextDocument], ref_template="#/$defs/{name}")[1]
    definitions.update({name: _refined(name, text) for name, text in texts.items()})
    variants["additionalProperties"] = {
        "type": "object",
        "properties": {"says": {"$ref": "#/$defs/TextDocument"}},
        "required": ["says"],
        "additionalProperties": value,
    }


def text(kind: str) -> str:
    """The schema of one kind of file as it is written."""
    return json.dumps(schema(kind), indent=2, ensure_ascii=False) + "\n"


def path_of(folder: Path, kind: str) -> Path:
    """Where the schema of a kind of file stands in `spec/schema/`."""
    return folder / f"{kind}.schema.json"


def first_line(file: str) -> str:
    """The first line of a pack's file, given its path in the pack: where an editor finds its schema."""
    *folders, name = Path(file).parts
    kind = folders[0] if folders else Path(name).stem
    return f"# yaml-language-server: $schema={'../' * (len(folders) + 1)}schema/{kind}.schema.json"


def main() -> None:
    """Write all schemas to `spec/schema/`."""
    folder = bundled("spec") / "schema"
    for kind in FILES:
        path_of(folder, kind).write_text(text(kind), encoding="utf-8")
        sys.stdout.write(f"{path_of(folder, kind)}\n")


if __name__ == "__main__":
    main()
