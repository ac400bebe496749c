"""YAML with its line numbers, and without its traps.

PyYAML reads `1e-5` as a string, `no:` as False, and `{a: f(x, key=y)}` as two entries. Each of
these has cost somebody an evening, so each is an error here that says what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from conformance.language.errors import Location, PackError

Key = str | int
_DEEPEST = 50
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NUMBER_LIKE = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$")
_WORD_BOOLEANS = frozenset({"yes", "no", "on", "off", "y", "n"})


@dataclass(frozen=True)
class Source:
    """One YAML file: its data, and where each piece of it stands."""

    file: str
    data: Any
    lines: dict[tuple[Key, ...], Location]

    def at(self, *path: Key) -> Location:
        """Where `path` stands, or the nearest piece around it."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return Location(self.file)


def read(path: Path, shown: str = "") -> Source:
    """The file at `path`; `shown` is how messages call it. Raises `PackError`."""
    name = shown or str(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PackError(f"cannot be read: {error.strerror}", Location(name)) from None
    except UnicodeDecodeError:
        raise PackError("is not UTF-8", Location(name)) from None
    return parse(text, name)


def parse(text: str, name: str) -> Source:
    """YAML text as a `Source`. Raises `PackError` for bad YAML and for its traps."""
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = Location(name, mark.line + 1, mark.column + 1) if mark else Location(name)
        raise PackError(f"is not YAML: {error.problem or error}", at) from None
    except yaml.YAMLError as error:
        raise PackError(f"is not YAML: {error}", Location(name)) from None
    lines: dict[tuple[Key, ...], Location] = {}
    data = None if node is None else _Builder(name, lines).build(node, ())
    return Source(name, data, lines)


@dataclass(frozen=True)
class _Builder:
    file: str
    lines: dict[tuple[Key, ...], Location]

    def location(self, node: yaml.Node) -> Location:
        return Location(self.file, node.start_mark.line + 1, node.start_mark.column + 1)

    def build(self, node: yaml.Node, path: tuple[Key, ...], *, flow: bool = False) -> Any:
        self.lines.setdefault(path, self.location(node))
        if len(path) > _DEEPEST:
            raise PackError(
                "is nested too deeply, or an alias stands inside what it names", self.location(node)
            )
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            inner = bool(node.flow_style)
            return [self.build(item, (*path, i), flow=inner) for i, item in enumerate(node.value)]
        return self.scalar(node, flow=flow)

    def mapping(self, node: yaml.MappingNode, path: tuple[Key, ...]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.key(key_node, value_node, flow=bool(node.flow_style))
            if key in result:
                raise PackError(f"'{key}' stands twice", self.location(key_node))
            self.lines[(*path, key)] = self.location(key_node)
            result[key] = self.build(value_node, (*path, key), flow=bool(node.flow_style))
        return result

    def key(self, node: yaml.Node, value: yaml.Node, *, flow: bool) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise PackError("a key must be a word", self.location(node))
        text = str(node.value)
        if node.tag == "tag:yaml.org,2002:merge":
            raise PackError(
                "the merge key << is not part of a pack's form", self.location(node), "repeat the entries"
            )
        if node.tag == "tag:yaml.org,2002:bool" and not node.style:
            raise PackError(
                f"YAML reads the key {text} as a boolean", self.location(node), f'write "{text}":'
            )
        empty = isinstance(value, yaml.ScalarNode) and value.value == "" and not value.style
        if flow and empty and value.tag == "tag:yaml.org,2002:null":
            raise PackError(
                f"'{text}' has no value: an expression with a comma inside {{ }} must be quoted",
                self.location(node),
                f'write it as "…, {text} …"',
            )
        return text

    def scalar(self, node: Any, *, flow: bool) -> Any:  # the stubs know no `style`
        text = str(node.value)
        if not node.style:  # a plain scalar, neither quoted nor a block
            if _NUMBER_LIKE.match(text) and node.tag == "tag:yaml.org,2002:str":
                raise PackError(
                    f"YAML reads {text} as a string",
                    self.location(node),
                    "write it with a point and a sign: 1.0e-5, 1.0e+9",
                )
            if text.lower() in _WORD_BOOLEANS and node.tag == "tag:yaml.org,2002:bool":
                raise PackError(
                    f"YAML reads {text} as a boolean",
                    self.location(node),
                    f'write "{text}", or true or false',
                )
            if text.count("(") != text.count(")"):
                hint = "an expression with a comma inside { } or [ ] must be quoted" if flow else ""
                raise PackError(f"'{text}' has unequal parentheses", self.location(node), hint)
            return _CONSTRUCT.get(node.tag, str)(text)
        return text


def _boolean(text: str) -> bool:
    return text.lower() == "true"


def _none(_: str) -> None:
    return None


def _integer(text: str) -> int:
    return int(text.replace("_", ""), 0)


_CONSTRUCT: dict[str, Any] = {
    "tag:yaml.org,2002:bool": _boolean,
    "tag:yaml.org,2002:int": _integer,
    "tag:yaml.org,2002:float": lambda text: float(text.replace(".inf", "inf").replace(".nan", "nan")),
    "tag:yaml.org,2002:null": _none,
}


def files(folder: Path, parts: Sequence[str]) -> list[Path]:
    """The YAML files of a pack under `folder`, by pattern, in a fixed order."""
    return sorted(path for pattern in parts for path in folder.glob(pattern))
