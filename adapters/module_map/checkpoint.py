"""A checkpoint as the document's parameters: `python adapters/module_map/checkpoint.py REQUEST.json`.

A map says how each parameter of a module is made of canonical ones; here that is read backwards. Runs in a process
with limits, since it reads a file of somebody's and runs the module's code; nothing in a checkpoint is executed
(`torch.load(weights_only=True)`, safetensors). Answers with `answer.json` in the folder of the request.
"""

from __future__ import annotations

import json
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
import torch

from module_map import Lines, MapError, ModuleMap, Source
from module_map.errors import listed
from module_map.expressions import LAYER, at_layer

FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
"""What a folder of `transformers` may keep its weights in."""
WRAPPERS = ("state_dict", "model_state_dict", "model")
"""Under which training scripts keep the weights beside the rest."""
PREFIXES = ("module.", "_orig_mod.", "model._orig_mod.")
"""What wrappers of PyTorch put before each name."""
SHAPES = {
    "embed": "VD", "position_embed": "PD", "lm_head": "DV", "w_q": "DQ", "w_k": "DK", "w_v": "DW",
    "w_1": "DF", "w_gate": "DF", "w_up": "DF",
}  # fmt: skip
MOST = 6
"""Names that a message shows."""
PLAIN = re.compile(r"(?:(transpose)\()?([\w.{}]+?)\)?")


class NoCheckpoint(Exception):
    """The file does not hold this module's weights; says what was expected and what there is."""


def read(path: Path) -> dict[str, Any]:
    """The tensors of a checkpoint by name. Raises `NoCheckpoint`."""
    if path.is_dir():
        found = [path / name for name in FILES if (path / name).is_file()]
        if not found:
            raise NoCheckpoint(f"{path} holds none of {', '.join(FILES)}")
        return read(found[0])
    if path.name.endswith(".index.json"):
        return dict(_shards(path))
    try:
        if path.suffix == ".safetensors":
            try:
                from safetensors.torch import load_file
            except ModuleNotFoundError:
                raise NoCheckpoint(
                    f"{path.name} needs the package safetensors: pip install safetensors"
                ) from None
            return dict(load_file(str(path)))
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, MemoryError) as error:
        raise NoCheckpoint(f"{path.name} cannot be read: {error}") from None
    except NoCheckpoint:
        raise
    except Exception as error:  # its readers raise what they like on bytes that are not theirs
        kind = re.search(r"GLOBAL ([\w.]+)", str(error))
        holds = f"it holds a {kind[1]}" if kind else "it is no file of PyTorch"
        raise NoCheckpoint(
            f"{path.name} is no checkpoint that can be read without running code ({holds}); "
            "save `model.state_dict()`, or a .safetensors file"
        ) from None
    return _tensors(loaded, path.name)


def _shards(index: Path) -> Iterator[tuple[str, Any]]:
    """The tensors of the files that an index names, which all stand beside it."""
    try:
        files = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, AttributeError):
        raise NoCheckpoint(f"{index.name} has no `weight_map`") from None
    for name in sorted(map(str, files)):
        if Path(name).name != name:
            raise NoCheckpoint(f"{index.name} names {name}, which does not stand beside it")
        yield from read(index.parent / name).items()


def _tensors(loaded: Any, name: str) -> dict[str, Any]:
    """The state dict in what was loaded."""
    for _ in range(2):
        if (
            isinstance(loaded, Mapping)
            and loaded
            and all(isinstance(v, torch.Tensor) for v in loaded.values())
        ):
            held = {str(key): value for key, value in loaded.items()}
            for prefix in PREFIXES:
                if all(key.startswith(prefix) for key in held):
                    held = {key[len(prefix) :]: value for key, value in held.items()}
            return held
        inner = next(
            (k for k in WRAPPERS if isinstance(loaded, Mapping) and isinstance(loaded.get(k), Mapping)), None
        )
        if inner is None:
            break
        loaded = loaded[inner]
    kind = type(loaded).__name__
    keys = f" with {listed([str(key) for key in loaded])}" if isinstance(loaded, Mapping) else ""
    raise NoCheckpoint(f"{name} holds a {kind}{keys}, no state dict of tensors; save `model.state_dict()`")


def sizes_of(
    held: Mapping[str, Any], plan: Mapping[str, Any], fields: Mapping[str, Any], asked: Mapping[str, int]
) -> dict[str, int]:
    """The sizes of the model: those asked for, those of its config.json, and those that shapes tell.

    Raises `NoCheckpoint` where the number of heads is nowhere said.
    """
    sizes = {**_of_shapes(held, plan.get("parameters", {})), **_of_config(plan, fields), **asked}
    wide = {letter: sizes.pop(letter, None) for letter in "QKW"}
    if "n_heads" not in sizes:
        raise NoCheckpoint("shapes do not tell how many heads there are; pass --size n_heads=N")
    heads = sizes["n_heads"]
    total = wide["Q"] or sizes.get("d_model")
    if total is not None:
        sizes.setdefault("d_head", total // heads)
    width = sizes.get("d_head")
    if width:
        sizes.setdefault("n_kv_heads", wide["K"] // width if wide["K"] else heads)
        sizes.setdefault("d_value", wide["W"] // sizes["n_kv_heads"] if wide["W"] else width)
    return sizes


def _of_shapes(held: Mapping[str, Any], entries: Mapping[str, str]) -> dict[str, int]:
    """What the shapes of single parameters tell."""
    letters: dict[str, int] = {}
    layers = 0
    for name, text in entries.items():
        while LAYER.search(name) and any(
            at_layer(other, layers) in held for other in entries if LAYER.search(other)
        ):
            layers += 1
        own = at_layer(name, 0) if LAYER.search(name) else name
        plain = PLAIN.fullmatch(text)
        axes = SHAPES.get(plain[2].rpartition(".")[2]) if plain else None
        if axes is not None and plain is not None and own in held and held[own].dim() == 2:
            letters |= dict(zip(axes[::-1] if plain[1] else axes, map(int, held[own].shape), strict=True))
    named = {"V": "vocab_size", "D": "d_model", "P": "max_positions", "F": "d_ff"}
    found = {named.get(letter, letter): size for letter, size in letters.items()}
    return {**found, **({"n_layers": layers} if layers else {})}


def _of_config(plan: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, int]:
    """What a config.json says, by the arguments that the map makes of sizes."""
    arguments = ((plan.get("build") or {}).get("config") or {}).get("arguments") or {}
    found = {}
    for name, value in arguments.items():
        size = str(value).lstrip("=").strip()
        if str(value).startswith("=") and size.isidentifier() and type(fields.get(name)) is int:
            found[size] = int(fields[name])
    return found


def canonical(
    held: Mapping[str, Any], module_map: ModuleMap, config: Mapping[str, Any], shapes: Mapping[str, list[int]]
) -> dict[str, Any]:
    """The document's parameters, float64 by canonical name.

    Each number of the module is a number of theirs times a factor plus another: filling the module with zeros, with
    ones and with their places tells which. Raises `NoCheckpoint` for names and shapes that are not the module's, and
    for a map that makes numbers of several.
    """
    places, start = {}, 1
    for name, shape in shapes.items():
        count = int(np.prod(shape))
        places[name] = torch.arange(start, start + count, dtype=torch.float64).reshape(shape)
        start += count
    module = module_map.build(config, torch.float64)
    own = module.state_dict()
    _same_names(own, held, module)
    probes = []
    for made in (
        {name: torch.zeros_like(place) for name, place in places.items()},
        {name: torch.ones_like(place) for name, place in places.items()},
        places,
    ):
        module_map.fill(module, made, config)
        probes.append({n: p.detach().clone() for n, p in module.named_parameters(remove_duplicate=False)})
    flat = np.full(start, np.nan)
    for name, tensor in held.items():
        if name not in probes[0]:
            continue
        zero, one, place = (probe[name].numpy().reshape(-1) for probe in probes)
        factor = one - zero
        told = factor != 0
        index = (place[told] - zero[told]) / factor[told]
        whole = np.rint(index).astype(np.int64)
        if not np.allclose(index, whole, atol=1e-3) or (whole < 1).any() or (whole >= start).any():
            raise NoCheckpoint(
                f"the map makes {name} of several parameters at once, which cannot be read backwards"
            )
        values = tensor.to(torch.float64).numpy().reshape(-1)
        flat[whole] = (values[told] - zero[told]) / factor[told]
    made, start = {}, 1
    for name, shape in shapes.items():
        count = int(np.prod(shape))
        part = flat[start : start + count]
        start += count
        if np.isnan(part).any() and name in places:
            absent = [n for n in probes[0] if n not in held]
            raise NoCheckpoint(f"nothing in it gives {name} (its NaN, or what is absent: {listed(absent)})")
        made[name] = part.reshape(shape)
    _all_taken(module_map, module, made, held, config)
    return made


def _same_names(own: Mapping[str, Any], held: Mapping[str, Any], module: Any) -> None:
    """Refuse names that are not the module's, all in one message."""
    parameters = dict(module.named_parameters(remove_duplicate=False))
    tied = {id(parameters[name]) for name in held if name in parameters}
    missing = [n for n in own if n not in held and n in parameters and id(parameters[n]) not in tied]
    buffers = dict(module.named_buffers())
    unexpected = [n for n in held if n not in own and n not in buffers]
    misfits = [
        f"{n} is {list(held[n].shape)} and {list(own[n].shape)} in the module"
        for n in own
        if n in held and held[n].shape != own[n].shape and n in parameters
    ]
    parts = []
    if missing:
        parts.append(f"it lacks {_some(missing)}")
    if unexpected:
        parts.append(f"the module has no {_some(unexpected)}")
    if misfits:
        parts.append(f"{_some(misfits)} (say sizes with --size NAME=N)")
    if parts:
        raise NoCheckpoint(f"it is not of this module: {'; '.join(parts)}")


def _some(names: list[str]) -> str:
    """The first of them, and how many more."""
    return listed(names[:MOST]) + (f" and {len(names) - MOST} more" if len(names) > MOST else "")


def _all_taken(
    module_map: ModuleMap,
    module: Any,
    made: Mapping[str, Any],
    held: Mapping[str, Any],
    config: Mapping[str, Any],
) -> None:
    """What is filled by the map has to be what the checkpoint holds, buffers included."""
    module_map.fill(module, {name: torch.from_numpy(array) for name, array in made.items()}, config)
    own = {**dict(module.named_buffers()), **module.state_dict()}
    for name, tensor in held.items():
        ours = own[name].to(torch.float64)
        theirs = tensor.to(torch.float64)
        if ours.shape != theirs.shape or not torch.allclose(
            ours, theirs, rtol=1e-6, atol=1e-9, equal_nan=True
        ):
            raise NoCheckpoint(f"{name} of the checkpoint is not what the map and the module make of it")


def main(path: str) -> int:
    """Do what the request says: `sizes`, then `weights`."""
    request = json.loads(Path(path).read_text(encoding="utf-8"))
    answer: dict[str, Any] = {"stage": "checkpoint"}
    _limited(int(request["memory_mb"]))
    try:
        given = request["given"]
        plan, lines = given["map"], Lines(given["file"], given["lines"])
        held = read(Path(request["checkpoint"]))
        if "shapes" not in request:
            answer["sizes"] = sizes_of(held, plan, given["hub"], request["sizes"])
        else:
            source = Source(request["module"])
            kind = Source(plan["python"]).make if plan.get("python") else ModuleMap
            answer["stage"] = "build"
            module_map = kind(source, plan, lines)
            with torch.no_grad():
                made = canonical(held, module_map, request["config"], request["shapes"])
            np.savez(request["weights"], **made)
        answer["stage"] = "done"
    except NoCheckpoint as error:
        answer = {"stage": "checkpoint", "error": str(error)}
    except (MapError, NotImplementedError) as error:
        answer["error"] = str(error)
    except Exception as error:
        answer["error"] = f"{type(error).__name__}: {error}".splitlines()[0][:400]
        traceback.print_exc()
    (Path(request["folder"]) / "answer.json").write_text(json.dumps(answer), encoding="utf-8")
    return 0 if answer["stage"] == "done" else 1


def _limited(memory_mb: int) -> None:
    """At most so much memory, where the system keeps such limits."""
    try:
        import resource
    except ImportError:
        return
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    wanted = memory_mb << 20
    resource.setrlimit(
        resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
