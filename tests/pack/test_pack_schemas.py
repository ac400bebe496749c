"""The schemas for editors: current, and of the form that the files have."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from conformance.locations import bundled
from conformance.pack import schemas
from conformance.pack.yaml_source import read

SPEC = bundled("spec")
PACK = SPEC / "forward-pass"
FILES = sorted(str(path.relative_to(PACK)) for path in PACK.rglob("*.yaml"))


def kind_of(file: str) -> str:
    path = Path(file)
    return path.parts[0] if len(path.parts) > 1 else path.stem


@cache
def validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator(
        json.loads(schemas.path_of(SPEC / "schema", kind).read_text(encoding="utf-8"))
    )


@pytest.mark.parametrize("kind", schemas.FILES)
def test_it_is_current(kind: str) -> None:
    written = schemas.path_of(SPEC / "schema", kind).read_text(encoding="utf-8")
    assert written == schemas.text(kind), "run: python -m conformance.pack.schemas"


@pytest.mark.parametrize("kind", schemas.FILES)
def test_it_is_a_schema_and_explains_itself(kind: str) -> None:
    schema = schemas.schema(kind)
    Draft202012Validator.check_schema(schema)
    assert schema["description"]
    for name, definition in schema["$defs"].items():
        assert definition["title"], name
        assert definition["description"], name
        assert "Document" not in definition["title"]


@pytest.mark.parametrize("file", FILES)
def test_every_file_of_the_pack_is_valid(file: str) -> None:
    errors = [
        f"{e.json_path}: {e.message}" for e in validator(kind_of(file)).iter_errors(read(PACK / file).data)
    ]
    assert errors == []


@pytest.mark.parametrize("file", FILES)
def test_every_file_of_the_pack_names_its_schema(file: str) -> None:
    line = schemas.first_line(file)
    assert (PACK / file).read_text(encoding="utf-8").splitlines()[0] == line
    assert ((PACK / file).parent / line.partition("$schema=")[2]).resolve() == schemas.path_of(
        SPEC / "schema", kind_of(file)
    )


TEXT = {"en": "text", "zh": "文字"}
FUNCTION = {"is": "x", "gives": "query"}
CLAIM = {"id": "q001.a", "statements": [], "of": "softmax", "title": TEXT, "says": TEXT}
OPERATION = {"rung": "operation", "function": "f", "arguments": {}, "outputs": {}, "says": TEXT}


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        (
            "axes",
            {"axes": {"query": {"size": "Tq"}, "side": {"length": 2}, "both": {"parts": ["query", "side"]}}},
        ),
        ("program", {"functions": {"f": FUNCTION}}),
        ("program", {"functions": {"f": {**FUNCTION, "is": {"by": "norm", "rms_norm": "x", "else": 0}}}}),
        (
            "program",
            {"functions": {"f": {**FUNCTION, "given": {"x": "query", "y": {"axes": "", "otherwise": 1}}}}},
        ),
        (
            "variants",
            {
                "choices": {"norm": {"values": ["a"], "default": "a"}},
                "variants": {"v": {"says": TEXT, "norm": "a"}},
            },
        ),
        ("claims", {"question": "Q001", "claims": [{**CLAIM, "golden": "output"}]}),
        ("operations", {"operations": {"f": OPERATION}}),
    ],
)
def test_what_is_right(kind: str, document: Any) -> None:
    assert validator(kind).is_valid(document)


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        ("axes", {"axis": {}}),
        ("axes", {"axes": {"query": {"sise": "Tq"}}}),
        ("program", {"functions": {"f": {"is": "x"}}}),
        ("program", {"functions": {"f": {**FUNCTION, "let": {"y": ["x"]}}}}),
        ("program", {"functions": {"f": {**FUNCTION, "given": {"x": {"axes": "query", "kind": "complex"}}}}}),
        ("variants", {"choices": {"norm": {"default": "a"}}, "variants": {}}),
        ("variants", {"choices": {}, "variants": {"v": {"norm": "a"}}}),
        ("claims", {"question": "Q001", "claims": [CLAIM]}),
        ("claims", {"question": "Q001", "claims": [{**CLAIM, "golden": "output", "holds": "x == 1"}]}),
        ("claims", {"question": "Q001", "claims": [{**CLAIM, "golden": "output", "level": "COULD"}]}),
        ("operations", {"operations": {"f": {**OPERATION, "rung": "operaton"}}}),
        ("statements", {"statements": {"S1": {"settled": "X", "says": TEXT}}}),
        ("tensors", {"tensors": {"q": {"axes": "query", "of": "f", "says": {"en": "q"}}}}),
    ],
)
def test_what_is_wrong(kind: str, document: Any) -> None:
    assert not validator(kind).is_valid(document)
