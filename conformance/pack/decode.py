"""Plain YAML data into the structs of `documents`, with errors that name the line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from conformance.language.errors import PackError, suggestion
from conformance.pack.yaml_source import Key, Source

T = TypeVar("T")
_UNKNOWN = re.compile(r"unknown field `([^`]+)`")
_PATH = re.compile(r" - at `\$(.*)`$")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")


def convert(source: Source, path: tuple[Key, ...], kind: type[T]) -> T:
    """The piece of `source` at `path` as `kind`. Raises `PackError` at the line at fault."""
    data = _piece(source.data, path)
    try:
        return msgspec.convert(data, kind, strict=True)
    except msgspec.ValidationError as error:
        text = str(error)
        steps: tuple[Key, ...] = ()
        found = _PATH.search(text)
        if found:
            steps = tuple(name or int(i) for name, i in _STEP.findall(found.group(1)))
            text = text[: found.start()]
        unknown = _UNKNOWN.search(text)
        hint = ""
        if unknown:
            steps = (*steps, unknown.group(1))
            hint = suggestion(unknown.group(1), _fields(kind))
            text = f"unknown key '{unknown.group(1)}'"
        where = ".".join(str(step) for step in path)
        raise PackError(f"{text} in {where or 'the file'}", source.at(*path, *steps), hint) from None


def _fields(kind: Any) -> list[str]:
    return [f.encode_name for f in msgspec.structs.fields(kind)] if hasattr(kind, "__struct_fields__") else []


def _piece(data: Any, path: tuple[Key, ...]) -> Any:
    for step in path:
        data = data[step]
    return data


def entries(source: Source, section: str) -> Iterator[str]:
    """The names under `section`, which must be a mapping. Raises `PackError`."""
    if not isinstance(source.data, dict) or section not in source.data:
        raise PackError(f"a mapping '{section}:' is expected", source.at())
    if not isinstance(source.data[section], dict):
        raise PackError(f"'{section}' must be a mapping of names", source.at(section))
    yield from source.data[section]


def items(source: Source, section: str) -> Iterator[int]:
    """The positions under `section`, which must be a list. Raises `PackError`."""
    if not isinstance(source.data, dict) or not isinstance(source.data.get(section), list):
        raise PackError(f"a list '{section}:' is expected", source.at())
    yield from range(len(source.data[section]))


def only(source: Source, *sections: str) -> None:
    """Refuse top-level keys other than `sections`. Raises `PackError`."""
    for key in source.data if isinstance(source.data, dict) else ():
        if key not in sections:
            raise PackError(f"unknown section '{key}'", source.at(key), suggestion(key, sections))
