"""What `pytorch my_file.py:GPT --map map.yaml` and `hf:LlamaForCausalLM` name: a module, and its map."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from conformance.language.errors import PackError, suggestion
from conformance.locations import bundled
from conformance.maps.load import ModuleMap, load_map
from conformance.maps.probes import probes
from conformance.pack.model import Pack
from conformance.plan.variants import VariantError, variant_of
from conformance.targets import TargetMissing, TargetUsageError

HUB = "transformers"
ADAPTER = "pytorch"


def ready_maps() -> dict[str, Path]:
    """The maps that come with the tool, by the class that each is for: `transformers:LlamaForCausalLM`."""
    folder = bundled("adapters") / "maps"
    return {":".join(path.stem.rsplit(".", 1)): path for path in sorted(folder.glob("*.yaml"))}


def module_arguments(words: Sequence[str], map_file: Path | None, pack: Pack | None) -> tuple[str, ...]:
    """What `adapters/pytorch.py` is given: the module, and the rest as JSON.

    Args:
        words: `my_file.py:GPT`, `package.module:build`, `hf:CLASS` or `hf:PATH`, then `name=value`
            for arguments of the build.
        map_file: the map; None for one that comes with the tool.
        pack: whose cases the map is tried on; None to leave that out.

    Raises:
        TargetUsageError, PackError: for words, or a map, that mean nothing.
    """
    first, *rest = words
    hub: Mapping[str, Any] = {}
    if first.startswith("hf:"):
        module, hub = _hub(first[3:])
    else:
        module = _module(first)
    found = map_file or ready_maps().get(module)
    if found is None:
        near = suggestion(module, list(ready_maps()))
        draft = (
            ""
            if first.startswith("hf:")
            else (f" `conformance new map.yaml --framework torch --inspect {first}` writes a first one;")
        )
        raise TargetUsageError(
            f"{first} needs a map: pass --map map.yaml;{draft} there are ready ones for {', '.join(ready_maps())}"
            + (f"; {near}" if near else "")
        )
    loaded = load_map(found)
    plan = _overridden(loaded, rest)
    given: dict[str, Any] = {
        "map": plan,
        "file": str(map_file) if map_file else found.name,
        "lines": loaded.lines,
        "hub": hub,
        "probes": [],
    }
    if pack is not None and not hub:
        try:
            variants = [variant_of(pack, entry, f"{found}: `variant`") for entry in loaded.variants]
        except VariantError as error:
            raise TargetUsageError(str(error)) from None
        given["probes"] = probes(
            pack,
            variants,
            loaded.document.operation,
            context=bool(plan["call"].get("context", {}).get("required")),
        )
    return module, json.dumps(given)


def _module(words: str) -> str:
    """`my_file.py:GPT` with its path made absolute. Raises TargetUsageError."""
    where, _, name = words.rpartition(":")
    if not where or not name:
        raise TargetUsageError(
            f"'{words}' names no module; write my_file.py:GPT, with the name of a class or of a function that builds "
            "the module, or my_package.model:GPT"
        )
    if not where.endswith(".py"):
        return words
    path = Path(where)
    if not path.is_file():
        raise TargetMissing(f"{where} {'is a folder' if path.is_dir() else 'does not exist'}")
    return f"{path.resolve()}:{name}"


def _hub(words: str) -> tuple[str, Mapping[str, Any]]:
    """The class that `hf:` names, and the fields of its config.json. Raises TargetUsageError."""
    path = Path(words)
    if path.is_dir():
        path = path / "config.json"
    if path.suffix != ".json" and not path.exists():
        return f"{HUB}:{words}", {}
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        (architecture, *_) = fields["architectures"]
    except OSError as error:
        raise TargetMissing(f"hf:{words}: {path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise TargetUsageError(
            f"hf:{words}: {path} is no config.json of {HUB}: `architectures`, a list with the model's class, "
            f"is expected ({type(error).__name__}: {error})"
        ) from None
    return f"{HUB}:{architecture}", fields


def _overridden(loaded: ModuleMap, words: Sequence[str]) -> dict[str, Any]:
    """The plan with `name=value` put in the place of the map's own argument. Raises TargetUsageError."""
    plan: dict[str, Any] = json.loads(json.dumps(loaded.plan))
    build = plan["build"]
    arguments = build["config"]["arguments"] if build.get("config") else build["arguments"]
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise TargetUsageError(
                f"'{word}' is no name=value; further words are arguments of the module's config"
            )
        try:
            arguments[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise PackError(f"the value of {word} is not YAML") from None
    return plan
