"""Plain YAML data into the structs of `documents`, with errors that name the line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from conformance.language.errors import PackError, suggestion
from conformance.pack.yaml_source import Key, Source

T = TypeVar("T")
_PATH = re.compile(r" - at `\$(.*)`$")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\[(\.\.\.)\]")
_UNKNOWN = re.compile(r"unknown field `([^`]+)`")
_MISSING = re.compile(r"missing required field `([^`]+)`")
_NO_VALUE = re.compile(r"Invalid enum value ('.*')")
_EXPECTED = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")
_NAMES = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
}


def convert(source: Source, path: tuple[Key, ...], kind: type[T]) -> T:
    """The piece of `source` at `path` as `kind`. Raises `PackError` at the line at fault."""
    data = _piece(source, path)
    try:
        return msgspec.convert(data, kind, strict=True)
    except msgspec.ValidationError as error:
        text = str(error)
        found = _PATH.search(text)
        text = text[: found.start()] if found else text
        steps, at_fault = _follow(data, kind, found.group(1) if found else "")
        hint = ""
        if unknown := _UNKNOWN.search(text):
            known = _fields(at_fault)
            text = f"unknown key '{unknown.group(1)}'"
            hint = suggestion(unknown.group(1), known) or f"there are {', '.join(known)}"
            steps = (*steps, unknown.group(1))
        elif missing := _MISSING.search(text):
            text = f"'{missing.group(1)}' is missing"
        elif wrong := _NO_VALUE.search(text):
            allowed = [
                value
                for o in _options(at_fault)
                if get_origin(o) is Literal
                for value in get_args(o)
                if value
            ]
            text = f"{wrong.group(1)} is not one of {', '.join(allowed)}"
            hint = suggestion(wrong.group(1).strip("'"), allowed)
        elif expected := _EXPECTED.search(text):
            wanted = " or ".join(_NAMES.get(name, name) for name in expected.group(1).split(" | "))
            text = f"{wanted} is expected, not {_NAMES.get(expected.group(2), expected.group(2))}"
        where = ".".join(str(step) for step in (*path, *steps[: -1 if unknown else None]))
        raise PackError(f"{text} in {where or 'the file'}", source.at(*path, *steps), hint) from None


def _follow(data: Any, kind: Any, path: str) -> tuple[tuple[Key, ...], Any]:
    """The keys along a path of msgspec's, and the type that is expected at its end.

    msgspec does not say which entry of a mapping is at fault; it is the first that does not convert.
    """
    steps: list[Key] = []
    for name, index, _ in _STEP.findall(path):
        options = _options(kind)
        if name:
            kind = next(
                f.type
                for o in options
                if _is_struct(o)
                for f in msgspec.structs.fields(o)
                if f.encode_name == name
            )
            steps.append(name)
        elif index:
            kind = next(get_args(o)[0] for o in options if get_origin(o) is list)
            steps.append(int(index))
        else:
            kind = next(get_args(o)[1] for o in options if get_origin(o) is dict)
            steps.append(next(key for key, value in data.items() if not _converts(value, kind)))
        data = data[steps[-1]]
    return tuple(steps), kind


def _options(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _is_struct(kind: Any) -> bool:
    return hasattr(kind, "__struct_fields__")


def _converts(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError:
        return False
    return True


def _fields(kind: Any) -> list[str]:
    return [f.encode_name for o in _options(kind) if _is_struct(o) for f in msgspec.structs.fields(o)]


def _piece(source: Source, path: tuple[Key, ...]) -> Any:
    data = source.data
    for i, step in enumerate(path):
        if isinstance(data, list) and isinstance(step, int):
            found = data[step]
        else:
            found = data.get(step) if isinstance(data, dict) else None
        if found is None:
            where = ".".join(str(part) for part in path[:i])
            raise PackError(f"'{step}' is missing in {where or 'the file'}", source.at(*path[:i]))
        data = found
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
