"""A map's file into what the worker acts on: checked, in one form, with the line of every entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from conformance.language.errors import PackError
from conformance.maps.documents import CacheDocument, InputDocument, MapDocument, ReturnsDocument, TapDocument
from conformance.pack.decode import convert
from conformance.pack.yaml_source import Source, read

INPUTS = ("tokens", "embeddings", "x", "context", "source", "attention_mask", "positions", "causal", "mask")
NEEDED: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "returned": ("argument", "result"),
    "object": ("argument", "make"),
    "inside": (),
}
"""What each protocol of a cache has to say."""


@dataclass(frozen=True)
class ModuleMap:
    """A map: its plan as JSON has it, its file, and the line of each entry."""

    file: Path
    plan: Mapping[str, Any]
    lines: Mapping[str, int]
    document: MapDocument

    @property
    def variants(self) -> list[str | Mapping[str, Any]]:
        """The variants that it says the module is."""
        given = self.plan["variant"]
        return list(given) if isinstance(given, list) else [given]


def load_map(path: Path) -> ModuleMap:
    """The map in a YAML file. Raises `PackError` with the line for what is no map."""
    source = read(path)
    document = convert(source, (), MapDocument)
    _check(document, source)
    plan = msgspec.to_builtins(document)
    call = {name: _input(getattr(document.call, name)) for name in INPUTS if getattr(document.call, name)}
    plan["call"] = {**call, "constants": document.call.constants, "method": document.call.method}
    plan["returns"] = msgspec.to_builtins(_returns(document.returns))
    plan["taps"] = {name: msgspec.to_builtins(_tap(tap)) for name, tap in document.taps.items()}
    if document.python:
        file, _, name = document.python.rpartition(":")
        plan["python"] = f"{(path.parent / file).resolve()}:{name}"
    lines = {"/".join(map(str, at)): found.line for at, found in source.lines.items() if at and found.line}
    return ModuleMap(path, plan, lines, document)


def _input(entry: str | list[str] | InputDocument) -> dict[str, Any]:
    """Which arguments take an input; what says nothing is left to the worker's defaults."""
    document = entry if isinstance(entry, InputDocument) else InputDocument(entry)
    arguments = [document.argument] if isinstance(document.argument, str) else document.argument
    plan: dict[str, Any] = {"arguments": arguments, "rows": document.rows}
    if document.as_:
        plan["as"] = document.as_
    plan |= {name: True for name in ("always", "required", "with_context") if getattr(document, name)}
    return plan


def _returns(entry: Any) -> ReturnsDocument:
    return entry if isinstance(entry, ReturnsDocument) else ReturnsDocument(entry)


def _tap(entry: str | TapDocument) -> TapDocument:
    return entry if isinstance(entry, TapDocument) else TapDocument(entry)


def _check(document: MapDocument, source: Source) -> None:
    """What the form alone does not say. Raises `PackError`."""
    call = document.call
    main = [name for name in ("tokens", "embeddings", "x") if getattr(call, name)]
    wanted = ("tokens", "embeddings") if document.operation == "model" else ("x",)
    if len(main) != 1 or main[0] not in wanted:
        raise PackError(
            f"call of a {document.operation} says which argument takes {' or '.join(wanted)}; it says {' and '.join(main) or 'none'}",
            source.at("call"),
        )
    cache = document.cache
    for name in NEEDED[cache.protocol]:
        if getattr(cache, name) in ("", None):
            raise PackError(f"a cache that is {_how(cache)} needs '{name}'", source.at("cache"))
    if cache.protocol == "inside" and not (cache.reset or cache.start):
        raise PackError(
            "a cache inside the module needs 'reset', the method that begins anew, or 'start', "
            "the argument that says how many tokens came before",
            source.at("cache"),
        )


def _how(cache: CacheDocument) -> str:
    return {"returned": "returned and passed back", "object": "an object"}.get(cache.protocol, cache.protocol)
