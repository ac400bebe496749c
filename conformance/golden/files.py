"""safetensors files whose bytes depend on their content alone.

The library's writer puts metadata in an order that changes from run to run; a golden must be the
same file whenever it is built. Reading is the library's, so each file is one that everybody can read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from conformance.language.arithmetic import Array

_TYPES = {
    "float64": "F64",
    "float32": "F32",
    "int64": "I64",
    "int32": "I32",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}


class GoldenError(Exception):
    """A file of the goldens that cannot be used; `name` is its path below the folder."""

    def __init__(self, name: str, problem: str) -> None:
        """Which file, and what is wrong with it."""
        self.name, self.problem = name, problem
        super().__init__(f"{name}: {problem}")


def encoded(tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    """The file's bytes. Wide elements come first, so that every tensor is aligned.

    Raises `TypeError` for a dtype that the goldens do not use.
    """
    arrays = {name: np.asarray(array) for name, array in tensors.items()}
    for name, array in arrays.items():
        if array.dtype.name not in _TYPES:
            raise TypeError(f"'{name}' is {array.dtype.name}; goldens hold {', '.join(_TYPES)}")
    header: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))}
    parts = []
    start = 0
    for name in sorted(arrays, key=lambda n: (-arrays[n].dtype.itemsize, n)):
        array = arrays[name]
        data = little_endian(array)
        header[name] = {
            "dtype": _TYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [start, start + len(data)],
        }
        parts.append(data)
        start += len(data)
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def decoded(path: Path, name: str) -> tuple[dict[str, Array], dict[str, str]]:
    """Tensors and metadata of a file; `name` is how errors call it.

    Raises `GoldenError` when it cannot be read or is no safetensors file.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return {key: file.get_tensor(key) for key in sorted(file.keys())}, dict(file.metadata() or {})
    except (OSError, SafetensorError) as error:
        raise GoldenError(name, f"cannot be read: {error}") from None


def little_endian(array: Array) -> bytes:
    """An array's elements in C order, the lowest byte of each first."""
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def digest(data: bytes) -> str:
    """The SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
