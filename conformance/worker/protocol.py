"""Frames on the socket between the runner and a worker. Both sides load this file.

A frame is a fixed header, a JSON text of at most 1 MiB and raw bytes. The header carries a nonce:
every request has a fresh one and its answer must repeat it, so bytes that a submission writes to
the descriptor, by accident or on purpose, are not taken for an answer. Nothing is pickled.

The raw bytes hold arrays, C order, little endian, each beginning at a multiple of 16. How many,
of what type and shape, is said by a *table* in the JSON text: `[[dtype, shape], ...]`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

# By name: a submission may replace them in the module.
from numpy import ascontiguousarray, dtype, empty, generic, ndarray, uint8

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

MAGIC = b"TCWK"
VERSION = 1
HEADER = struct.Struct("<4sHH16sIQ")  # magic, version, kind, nonce, length of text, of raw bytes
MAX_META = 1 << 20
NONCE_BYTES = 16
ALIGN = 16
FIRST = 1 << 16  # what one read may bring; a small frame needs a single system call

# Kinds of frames. A request is answered by the kind after it, or by FAULT.
HELLO, READY = 1, 2
LOAD, LOADED = 3, 4
CALL, ANSWER = 5, 6
WANT, TENSORS = 7, 8
FAULT = 99

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode
_decode = json.JSONDecoder().decode


class Garbled(Exception):
    """What came over the socket is not a frame."""


class Frame(NamedTuple):
    """One message: its kind, nonce, decoded JSON and raw bytes (uint8, 1-D)."""

    kind: int
    nonce: bytes
    meta: Any
    payload: Array


def encode_frame(kind: int, nonce: bytes, meta: Any, parts: Sequence[Any] = ()) -> bytes:
    """The bytes of a frame; `parts` are buffers (see `lay_out`). Raises ValueError over 1 MiB text."""
    text = _encode(meta).encode("ascii")
    if len(text) > MAX_META:
        raise ValueError(f"a message of {len(text)} bytes; {MAX_META} are allowed")
    size = sum(memoryview(part).nbytes for part in parts)
    return b"".join((HEADER.pack(MAGIC, VERSION, kind, nonce, len(text), size), text, *parts))


class Reader:
    """Reads frames with `receive_into(view) -> bytes received, 0 at the end`."""

    def __init__(self, receive_into: Callable[[memoryview], int]) -> None:
        self._receive = receive_into
        self._first = memoryview(bytearray(FIRST))

    def frame(self, max_payload: int) -> Frame:
        """The next frame. Raises Garbled, also for a longer payload, and EOFError at the end.

        Frames alternate (a side that has sent one waits for the other), so bytes after the end of
        a frame are a sign of somebody else writing, and are Garbled too.
        """
        first, have = self._first, 0
        while have < HEADER.size:
            have += self._some(first[have:])
        magic, version, kind, nonce, text_size, size = HEADER.unpack_from(first)
        if magic != MAGIC or version != VERSION:
            raise Garbled("no header")
        if text_size > MAX_META or size > max_payload:
            raise Garbled("a longer message than was asked for")
        if have > HEADER.size + text_size + size:
            raise Garbled("more bytes than announced")
        body = first[HEADER.size : have]
        text = bytearray(text_size)
        taken = min(text_size, len(body))
        text[:taken] = body[:taken]
        self._fill(memoryview(text), taken)
        payload = empty(size, uint8)
        if size:
            raw = payload.data
            rest = len(body) - taken
            raw[:rest] = body[taken:]
            self._fill(raw, rest)
        try:
            meta = _decode(text.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise Garbled(f"no JSON: {error}") from None
        return Frame(kind, nonce, meta, payload)

    def _some(self, view: memoryview) -> int:
        received = self._receive(view)
        if not received:
            raise EOFError
        return received

    def _fill(self, view: memoryview, have: int) -> None:
        while have < len(view):
            have += self._some(view[have:])


def padded(size: int) -> int:
    """`size` in bytes, rounded up to where the next array may begin."""
    return -(-size // ALIGN) * ALIGN


def lay_out(arrays: Sequence[Array]) -> tuple[list[list[Any]], list[Any]]:
    """The table and the buffers of arrays of native dtypes, ready for `encode_frame`."""
    table: list[list[Any]] = []
    parts: list[Any] = []
    for array in arrays:
        table.append([array.dtype.str, list(array.shape)])
        parts.append(ascontiguousarray(array).reshape(-1).view(uint8))
        gap = padded(array.nbytes) - array.nbytes
        if gap:
            parts.append(bytes(gap))
    return table, parts


def cut(table: Sequence[Sequence[Any]], payload: Array) -> list[Array]:
    """Views of `payload` as the arrays that `table` describes. Raises Garbled when they differ."""
    arrays: list[Array] = []
    at = 0
    for dtype_name, shape in table:
        kind = dtype(dtype_name)
        size = kind.itemsize
        for length in shape:
            size *= length
        if at + size > payload.size:
            raise Garbled("fewer bytes than announced")
        arrays.append(payload[at : at + size].view(kind).reshape(shape))
        at += padded(size)
    if at != payload.size:
        raise Garbled("more bytes than announced")
    return arrays


def flatten(value: Any, arrays: list[Array], floats: str) -> Any:
    """`value` as JSON, its arrays appended to `arrays`: floats as `floats` ('<f4' or '<f8').

    Integers become int64 and bools stay. Raises TypeError for anything that is not a number, a
    string, None, an array of these, or a mapping or sequence of such values.
    """
    if isinstance(value, ndarray):
        kinds = {"f": floats, "i": "<i8", "u": "<i8", "b": "|b1"}
        wire = kinds.get(value.dtype.kind)
        if wire is None:
            raise TypeError(f"arrays of {value.dtype} cannot be sent to a worker")
        arrays.append(value.astype(wire, copy=False))
        return {"a": len(arrays) - 1}
    if isinstance(value, generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {"m": {str(name): flatten(item, arrays, floats) for name, item in value.items()}}
    if isinstance(value, Sequence):
        return {"l": [flatten(item, arrays, floats) for item in value]}
    raise TypeError(f"a {type(value).__name__} cannot be sent to a worker")


def unflatten(meta: Any, array: Callable[[int, str], Any], path: str = "") -> Any:
    """The value again; `array(index, path)` makes each array, `path` being like 'params.w_q'."""
    if not isinstance(meta, dict):
        return meta
    if "a" in meta:
        return array(meta["a"], path)
    if "m" in meta:
        prefix = path + "." if path else ""
        return {name: unflatten(item, array, prefix + name) for name, item in meta["m"].items()}
    return [unflatten(item, array, f"{path}[{i}]") for i, item in enumerate(meta["l"])]
