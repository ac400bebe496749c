"""The tolerances that grading needs, measured once: `Bench.store` with a file behind it.

A σ costs 32 noisy readings of the program. `golden/tolerances.safetensors` holds those of every
scenario of seed 0; what it does not hold is measured and kept in memory. A file that is missing,
damaged or of another program is as good as none: the same verdicts, later. `golden verify` tells.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from conformance.golden.coding import decode, encode
from conformance.golden.depends import dependence
from conformance.golden.files import GoldenError, decoded, encoded, little_endian
from conformance.language.arithmetic import Array
from conformance.locations import bundled
from conformance.pack.model import Pack

NAME = "tolerances.safetensors"
VERSION = "1"
_KEY = re.compile(r"([0-9a-f]{24})/(.+)", re.DOTALL)
_TABLES = ("keys", "shape", "base", "offset", "scenarios", "suffixes", "shapes")


@dataclass(frozen=True)
class Table:
    """A file of tolerances in memory, whose entries are decoded one by one when asked for.

    A key is the first 24 digits of a scenario's and a suffix. Entry i is of `keys[i]`, the number of
    its scenario times the number of suffixes plus that of its suffix; they are in order. Its codes are
    `packed[offset[i]:offset[i + 1]]`, compressed by zlib, whose checksum tells damage.
    """

    scenarios: Mapping[str, int]
    suffixes: Mapping[str, int]
    shapes: tuple[tuple[int, ...], ...]
    keys: Array
    shape: Array
    base: Array
    offset: Array
    packed: Array

    def __len__(self) -> int:
        return len(self.keys)

    def get(self, key: str) -> Array | None:
        """σ of a key; None where there is none or its codes are damaged."""
        scenario, suffix = self.scenarios.get(key[:24]), self.suffixes.get(key[25:])
        if scenario is None or suffix is None or key[24] != "/":
            return None
        wanted = scenario * len(self.suffixes) + suffix
        i = int(np.searchsorted(self.keys, wanted))
        if i == len(self.keys) or self.keys[i] != wanted:
            return None
        try:
            data = zlib.decompress(self.packed[self.offset[i] : self.offset[i + 1]].tobytes())
            codes = np.frombuffer(data, "<u2")
            return decode(int(self.base[i]), codes, self.shapes[self.shape[i]])
        except (zlib.error, ValueError):
            return None

    def names(self) -> Iterator[str]:
        """Every key."""
        scenarios, suffixes = list(self.scenarios), list(self.suffixes)
        for key in self.keys.tolist():
            yield f"{scenarios[key // len(suffixes)]}/{suffixes[key % len(suffixes)]}"


class Tolerances(MutableMapping[str, Array]):
    """σ by key, from a table and from what has been added since; see `Spreads` for the keys."""

    def __init__(self, table: Table | None = None) -> None:
        """With no table, nothing is known yet."""
        self.table = table
        self.known: dict[str, Array] = {}

    def _find(self, key: str) -> Array | None:
        found = self.known.get(key)
        if found is None and self.table is not None:
            found = self.table.get(key)
            if found is not None:
                self.known[key] = found
        return found

    def __getitem__(self, key: str) -> Array:
        found = self._find(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._find(key) is not None

    def __setitem__(self, key: str, sigma: Array) -> None:
        self.known[key] = sigma

    def __delitem__(self, key: str) -> None:
        """Forgets what was added; an entry of the table cannot be taken out."""
        del self.known[key]

    def __iter__(self) -> Iterator[str]:
        listed = list(self.table.names()) if self.table is not None else []
        yield from dict.fromkeys([*listed, *self.known])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def known_tolerances(pack: Pack) -> Tolerances:
    """The bundled tolerances, if they are those of this pack and this engine; else an empty store."""
    try:
        folder = bundled("golden")
        return Tolerances(load(folder / NAME, dependence(pack)))
    except (OSError, GoldenError):
        return Tolerances()


def load(path: Path, depends: str | None = None) -> Table:
    """The table in a file. Raises `GoldenError` when it is unusable, or depends on another hash than `depends`."""
    tensors, said = decoded(path, NAME)
    if said.get("version") != VERSION:
        raise GoldenError(NAME, f"is of version {said.get('version')}, this is {VERSION}")
    if depends is not None and said.get("depends") != depends:
        raise GoldenError(
            NAME, f"is stale: made for {said.get('depends')}, the program and the engine are now {depends}"
        )
    try:
        if said["crc"] != str(_crc(tensors)):
            raise GoldenError(NAME, "is damaged: its tables do not have their checksum")
        scenarios = tensors["scenarios"].tobytes().hex()
        return Table(
            {scenarios[i : i + 24]: i // 24 for i in range(0, len(scenarios), 24)},
            {suffix: i for i, suffix in enumerate(tensors["suffixes"].tobytes().decode().split("\n"))},
            tuple(tuple(map(int, text.split())) for text in tensors["shapes"].tobytes().decode().split("\n")),
            *(tensors[name] for name in ("keys", "shape", "base", "offset", "packed")),
        )
    except (KeyError, ValueError) as error:
        raise GoldenError(NAME, f"is damaged: {error}") from None


def file_of(sigmas: Mapping[str, Array], depends: str, pack: Pack) -> bytes:
    """The file of a set of tolerances. Raises `ValueError` for a key or a σ of another form."""
    split = {}
    for key in sigmas:
        parts = _KEY.fullmatch(key)
        if parts is None or "\n" in key:
            raise ValueError(f"'{key}' is no key of a tolerance")
        split[key] = (parts[1], parts[2])
    scenarios = {name: i for i, name in enumerate(sorted({s for s, _ in split.values()}))}
    suffixes = {name: i for i, name in enumerate(sorted({s for _, s in split.values()}))}
    shapes = {shape: i for i, shape in enumerate(sorted({np.shape(sigma) for sigma in sigmas.values()}))}
    number = {key: scenarios[a] * len(suffixes) + suffixes[b] for key, (a, b) in split.items()}
    ordered = sorted(sigmas, key=number.__getitem__)
    coded = [encode(sigmas[key]) for key in ordered]
    packed = [zlib.compress(little_endian(codes), 9) for _, codes in coded]
    tensors: dict[str, Array] = {
        "keys": np.array([number[key] for key in ordered], np.int64),
        "shape": np.array([shapes[np.shape(sigmas[key])] for key in ordered], np.uint16),
        "base": np.array([base for base, _ in coded], np.int32),
        "offset": np.cumsum([0, *map(len, packed)], dtype=np.int64),
        "scenarios": np.frombuffer(bytes.fromhex("".join(scenarios)), np.uint8),
        "suffixes": np.frombuffer("\n".join(suffixes).encode(), np.uint8),
        "shapes": np.frombuffer("\n".join(" ".join(map(str, shape)) for shape in shapes).encode(), np.uint8),
        "packed": np.frombuffer(b"".join(packed), np.uint8),
    }
    said = {
        "version": VERSION,
        "pack": pack.id,
        "pack_version": pack.version,
        "depends": depends,
        "crc": str(_crc(tensors)),
    }
    return encoded(tensors, said)


def _crc(tensors: Mapping[str, Array]) -> int:
    """A checksum of everything but the packed codes, which have their own."""
    total = 0
    for name in _TABLES:
        total = zlib.crc32(tensors[name].tobytes(), total)
    return total
