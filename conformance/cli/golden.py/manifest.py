"""`golden/manifest.yaml`: which files there are, of which pack, and their hashes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from conformance.golden.files import GoldenError

NAME = "manifest.yaml"
SCHEMA = 1
_HEAD = "# Written by `conformance golden build`; not for editing. What each field means: docs/golden.md.\n"


class GoldenEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One golden file. `variant` made it; `variants` are all for which it is the same."""

    case: str
    operation: str
    variant: str
    variants: list[str]
    sha256: str
    bytes: int
    tensors: int
    choices: dict[str, str | int | float | bool] = {}
    omitted: dict[str, str] = {}


class ToleranceEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The file of tolerances; `depends` is the hash of all that they depend on."""

    file: str
    sha256: str
    bytes: int
    entries: int
    depends: str


class Manifest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The whole file. `pack_digest` is the hash of every file of the pack."""

    schema: int
    pack: str
    pack_version: str
    pack_digest: str
    tool_version: str
    seed: int
    files: dict[str, GoldenEntry]
    tolerances: ToleranceEntry | None = None

    def hashes(self) -> dict[str, tuple[str, int]]:
        """The SHA-256 and size of every file that the manifest names."""
        found = {name: (entry.sha256, entry.bytes) for name, entry in self.files.items()}
        if self.tolerances is not None:
            found[self.tolerances.file] = (self.tolerances.sha256, self.tolerances.bytes)
        return found


def dump(manifest: Manifest) -> str:
    """The manifest as YAML, in an order of its own."""
    data = msgspec.to_builtins(manifest)
    data["files"] = {name: _slim(entry) for name, entry in data["files"].items()}
    return _HEAD + yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=200)


def _slim(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if value not in ({}, [])}


def load(folder: Path) -> Manifest:
    """The manifest of a folder of goldens. Raises `GoldenError` when it is missing or is none."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        text = (folder / NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise GoldenError(NAME, f"is missing in {folder}; run: conformance golden build") from None
    except (OSError, UnicodeDecodeError) as error:
        raise GoldenError(NAME, f"cannot be read: {error}") from None
    try:
        manifest = msgspec.convert(yaml.load(text, Loader=loader), Manifest, strict=True)  # noqa: S506 -- a safe loader
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise GoldenError(NAME, f"is no manifest: {' '.join(str(error).split())}") from None
    if manifest.schema != SCHEMA:
        raise GoldenError(NAME, f"has schema {manifest.schema}; this version reads {SCHEMA}")
    return manifest
