"""`golden export`: the goldens for languages that read no safetensors, as NumPy archives or JSON."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np

from conformance.golden import manifest
from conformance.golden.files import GoldenError, decoded
from conformance.golden.verify import of_file
from conformance.language.arithmetic import Array
from conformance.pack.model import Pack

Format = Literal["npz", "json"]
METADATA = "metadata.json"
"""In an archive, the member that holds what the file says of itself, axes included."""


def export(pack: Pack, folder: Path, out: Path, form: Format, cases: Sequence[str] = ()) -> list[Path]:
    """Write every golden of `folder`, or those of the cases that fit, below `out`, under the same names.

    Raises `GoldenError` for a damaged file or a pattern that fits no case, before anything is written;
    `OSError` when `out` cannot be written.
    """
    listed = manifest.load(folder)
    for pattern in cases:
        if not any(fnmatchcase(entry.case, pattern) for entry in listed.files.values()):
            raise GoldenError(
                pattern,
                f"no golden is of this case; there are {', '.join(sorted({e.case for e in listed.files.values()}))}",
            )
    chosen = {
        name: entry
        for name, entry in listed.files.items()
        if not cases or any(fnmatchcase(entry.case, pattern) for pattern in cases)
    }
    for name, entry in chosen.items():
        fault = of_file(folder, name, entry.sha256, entry.bytes, pack)
        if fault is not None:
            raise fault
    written = []
    for name in chosen:
        path = (out / name).with_suffix(f".{form}")
        path.parent.mkdir(parents=True, exist_ok=True)
        tensors, said = decoded(folder / name, name)
        path.write_bytes(archive(tensors, said) if form == "npz" else text(tensors, said))
        written.append(path)
    return written


def parted(
    said: Mapping[str, str], tensors: Mapping[str, Array]
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Metadata as what is said of the file, and the axes of each tensor."""
    about = {key: value for key, value in said.items() if key not in tensors}
    return about, {name: said.get(name, "").split() for name in tensors}


def archive(tensors: Mapping[str, Array], said: Mapping[str, str]) -> bytes:
    """An .npz archive: `np.load(path)["step0/output/logits"]`. The same bytes each time."""
    about, axes = parted(said, tensors)
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, array in tensors.items():
            member = BytesIO()
            np.lib.format.write_array(
                member, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False
            )
            file.writestr(_member(f"{name}.npy"), member.getvalue())
        file.writestr(_member(METADATA), json.dumps({**about, "axes": axes}, indent=1, ensure_ascii=False))
    return buffer.getvalue()


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    member.compress_type = zipfile.ZIP_DEFLATED
    return member


def text(tensors: Mapping[str, Array], said: Mapping[str, str]) -> bytes:
    """JSON: of each tensor its dtype, shape, axes, and its elements in C order.

    A number is the shortest decimal that reads back as the same float64; what is not finite is
    "NaN", "Infinity" or "-Infinity".
    """
    about, axes = parted(said, tensors)
    whole: dict[str, Any] = {
        **about,
        "tensors": {
            name: {
                "dtype": array.dtype.name,
                "shape": list(array.shape),
                "axes": axes[name],
                "data": _elements(array),
            }
            for name, array in tensors.items()
        },
    }
    return (json.dumps(whole, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n").encode()


def _elements(array: Array) -> list[Any]:
    elements: list[Any] = array.reshape(-1).tolist()
    if array.dtype.kind != "f":
        return elements
    return [
        x if np.isfinite(x) else "NaN" if np.isnan(x) else "Infinity" if x > 0 else "-Infinity"
        for x in elements
    ]
