"""A model without its weights: the file's protobuf with every large tensor left where it is.

A weight inside the file becomes a reference to its own bytes (external data whose location is the
model file itself), so a graph of gigabytes is parsed in kilobytes, and the reader behind this one
sees one kind of weight only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Protocol, overload

INLINE = 64 << 10
"""Bytes of a tensor that are kept: masks, shapes and small tables, which the graph's reader looks at."""
DEEPEST = 40
"""Messages within messages; a model with a function's subgraphs has about ten."""
FIELDS = 20_000_000

# Field numbers of onnx.proto.
MODEL_GRAPH, MODEL_FUNCTIONS, MODEL_OPSETS, MODEL_IR = 7, 25, 8, 1
GRAPH_NODE, GRAPH_INITIALIZER = 1, 5
FUNCTION_NODE = 7
NODE_ATTRIBUTE = 5
ATTRIBUTE_TENSOR, ATTRIBUTE_GRAPH, ATTRIBUTE_TENSORS, ATTRIBUTE_GRAPHS = 5, 6, 10, 11
TENSOR_RAW, TENSOR_EXTERNAL, TENSOR_LOCATION = 9, 13, 14

# Which fields of which message lead to a tensor.
INTO: dict[str, dict[int, str]] = {
    "model": {MODEL_GRAPH: "graph", MODEL_FUNCTIONS: "function"},
    "graph": {GRAPH_NODE: "node", GRAPH_INITIALIZER: "tensor"},
    "function": {FUNCTION_NODE: "node"},
    "node": {NODE_ATTRIBUTE: "attribute"},
    "attribute": {
        ATTRIBUTE_TENSOR: "tensor",
        ATTRIBUTE_TENSORS: "tensor",
        ATTRIBUTE_GRAPH: "graph",
        ATTRIBUTE_GRAPHS: "graph",
    },
}


WINDOW = 256 << 10
"""Bytes of a large file that are in memory at a time."""


class Bytes(Protocol):
    """What a model is read from: bytes in memory, or a window on a file."""

    def __len__(self) -> int:
        """Bytes in all."""

    @overload
    def __getitem__(self, key: int, /) -> int: ...
    @overload
    def __getitem__(self, key: slice, /) -> bytes | memoryview: ...


class Window:
    """A file of which little is in memory; mapping it would count every page that was touched."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        """A file that stays open, and its size."""
        self._file = file
        self._size = size
        self._start = 0
        self._held = b""

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, key: int, /) -> int: ...
    @overload
    def __getitem__(self, key: slice, /) -> bytes: ...
    def __getitem__(self, key: int | slice, /) -> int | bytes:
        if isinstance(key, int):
            return self._range(key, key + 1)[0]
        start, stop, _ = key.indices(self._size)
        return self._range(start, max(stop, start))

    def _range(self, start: int, stop: int) -> bytes:
        if not self._start <= start <= stop <= self._start + len(self._held):
            self._file.seek(start)
            self._held = self._file.read(max(WINDOW, stop - start))
            self._start = start
        return self._held[start - self._start : stop - self._start]


class Malformed(ValueError):
    """The bytes are no protobuf of the form expected; says where."""


class Field(NamedTuple):
    """One field of a message: its number, its wire type, and where it and its content stand."""

    number: int
    kind: int
    start: int
    content: int
    end: int


def fields(data: Bytes, start: int, end: int) -> Iterator[Field]:
    """The fields of the message that stands in `data[start:end]`. Raises `Malformed`."""
    at = start
    while at < end:
        begin = at
        key, at = _varint(data, at, end)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise Malformed(f"a field without a number at byte {begin}")
        content = at
        if kind == 0:
            _, at = _varint(data, at, end)
        elif kind == 1:
            at += 8
        elif kind == 5:
            at += 4
        elif kind == 2:
            length, content = _varint(data, at, end)
            at = content + length
        else:
            raise Malformed(f"wire type {kind} at byte {begin}")
        if at > end:
            raise Malformed(f"it ends in the middle of a field that begins at byte {begin}")
        yield Field(number, kind, begin, content, at)


def without_weights(data: Bytes, location: str) -> bytes:
    """The model in `data` with every tensor above `INLINE` bytes as a reference into the file `location`.

    Raises `Malformed` when it is truncated, nested too deeply, or no protobuf at all.
    """
    return b"".join(_Stripper(data, location).message("model", 0, len(data), 0))


class _Stripper:
    def __init__(self, data: Bytes, location: str) -> None:
        self._data = data
        self._location = location
        self._seen = 0

    def message(self, kind: str, start: int, end: int, depth: int) -> list[bytes]:
        if depth > DEEPEST:
            raise Malformed(f"messages are nested more than {DEEPEST} deep")
        if kind == "tensor":
            return self._tensor(start, end)
        into = INTO[kind]
        pieces: list[bytes] = []
        pending = start  # bytes up to here are written, or belong to what is copied as it is
        for field in fields(self._data, start, end):
            self._seen += 1
            if self._seen > FIELDS:
                raise Malformed(f"more than {FIELDS} fields")
            inner = into.get(field.number)
            if inner is None or field.kind != 2 or field.end - field.content <= INLINE:
                if inner is not None and field.kind == 2:
                    self._check(inner, field.content, field.end, depth + 1)
                continue
            pieces.append(bytes(self._data[pending : field.start]))
            pending = field.end
            body = b"".join(self.message(inner, field.content, field.end, depth + 1))
            pieces += [_varint_bytes(field.number << 3 | 2), _varint_bytes(len(body)), body]
        pieces.append(bytes(self._data[pending:end]))
        return pieces

    def _check(self, kind: str, start: int, end: int, depth: int) -> None:
        """The nesting of what is small enough to be copied as it is."""
        if depth > DEEPEST:
            raise Malformed(f"messages are nested more than {DEEPEST} deep")
        into = INTO.get(kind)
        if into is None:
            return
        for field in fields(self._data, start, end):
            inner = into.get(field.number)
            if inner is not None and field.kind == 2:
                self._check(inner, field.content, field.end, depth + 1)

    def _tensor(self, start: int, end: int) -> list[bytes]:
        """A tensor whose raw bytes, if they are many, are replaced by where they stand."""
        pieces: list[bytes] = []
        for field in fields(self._data, start, end):
            length = field.end - field.content
            if field.number == TENSOR_RAW and field.kind == 2 and length > INLINE:
                for key, value in (
                    ("location", self._location),
                    ("offset", str(field.content)),
                    ("length", str(length)),
                ):
                    entry = _text(1, key) + _text(2, value)
                    pieces += [_varint_bytes(TENSOR_EXTERNAL << 3 | 2), _varint_bytes(len(entry)), entry]
                pieces += [_varint_bytes(TENSOR_LOCATION << 3), _varint_bytes(1)]
            else:
                pieces.append(bytes(self._data[field.start : field.end]))
        return pieces


def _varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= end:
            raise Malformed(f"it ends in the middle of a number at byte {at}")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise Malformed(f"a number of more than 64 bits at byte {at}")


def _varint_bytes(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _text(number: int, value: str) -> bytes:
    raw = value.encode()
    return _varint_bytes(number << 3 | 2) + _varint_bytes(len(raw)) + raw
