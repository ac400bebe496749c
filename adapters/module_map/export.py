"""A mapped module as an ONNX file, by PyTorch's own exporter: `python adapters/module_map/export.py REQUEST.json`.

Runs in a process of its own, since it runs the module's code; answers with `answer.json` in the folder of
the request. What is exported speaks with the usual names, whatever the module calls its arguments.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
import torch
from torch.utils import _pytree

from module_map import Held, Lines, MapError, ModuleMap, Source
from module_map.cache import Past

NAMES = {"tokens": "input_ids", "attention_mask": "attention_mask", "positions": "position_ids"}


class Refused(Exception):
    """The module cannot be exported; says why, in one line."""


class Exported(torch.nn.Module):  # type: ignore[misc]  # PyTorch is seen as Any
    """The module behind the usual names: tokens, mask and positions in, and the past; logits out, and the present."""

    def __init__(
        self, module_map: ModuleMap, held: Held, config: Mapping[str, Any], dtype: Any, names: Sequence[str]
    ) -> None:
        super().__init__()
        self.inner = held.module
        self.module_map, self.held, self.config, self.dtype, self.names = (
            module_map,
            held,
            config,
            dtype,
            names,
        )
        self.past: State | None = None

    def forward(self, given: Sequence[Any], past: Sequence[Any]) -> Any:
        """`given` are the tensors of `names`, `past` keys and values, layer by layer."""
        inputs = dict(zip(self.names, given, strict=True))
        if "attention_mask" in inputs:
            inputs["attention_mask"] = inputs["attention_mask"] != 0
        before = None if self.past is None else Past(self.past.made(past), past[0].shape[self.past.axis], 1)
        self.held.cache.sequences = 1
        output, after = self.module_map.call(self.held, inputs, self.config, self.dtype, before, None)
        if self.past is None:
            return output
        return (output, *self.past.tensors(after.held))


class State:
    """A cache as tensors: taken apart, and put together again. Raises `Refused` for one that is not made of any."""

    def __init__(self, plan: Mapping[str, Any], sample: Any, length: int) -> None:
        self.kind = type(sample)
        self.object = plan["protocol"] == "object"
        if self.object and not (hasattr(sample, "layers") and hasattr(sample, "update")):
            raise Refused(
                f"its cache is a {self.kind.__name__}, and of objects only the caches of transformers can be taken apart"
            )
        leaves, self.spec = ([], None) if self.object else _pytree.tree_flatten(sample)
        found = self.tensors(sample) if self.object else leaves
        if not found or not all(isinstance(leaf, torch.Tensor) and leaf.dim() == 4 for leaf in found):
            raise Refused(
                "its cache is not keys and values of four axes: "
                + ", ".join(dict.fromkeys(type(leaf).__name__ for leaf in found))
            )
        fitting = [i for i in (2, 1) if all(t.shape[i] == length for t in found)]
        if not fitting:
            raise Refused(f"after {length} tokens no axis of its cache has that size")
        self.axis = fitting[0]
        self.shapes = [tuple(tensor.shape) for tensor in found]

    def tensors(self, held: Any) -> list[Any]:
        """Keys and values, layer by layer."""
        if not self.object:
            return list(_pytree.tree_leaves(held))
        return [tensor for layer in held.layers for tensor in (layer.keys, layer.values)]

    def made(self, tensors: Sequence[Any]) -> Any:
        """The cache that holds these."""
        if not self.object:
            return _pytree.tree_unflatten(list(tensors), self.spec)
        held = self.kind()
        for layer in range(len(tensors) // 2):
            held.update(tensors[2 * layer], tensors[2 * layer + 1], layer)
        return held


def inputs_of(plan: Mapping[str, Any], variant: Mapping[str, Any]) -> list[str]:
    """What the exported model takes, by the contract's names."""
    if plan.get("operation", "model") != "model":
        raise Refused(f"the map is of a {plan['operation']}; a model is exported, which takes tokens")
    call = plan["call"]
    names = ["tokens"]
    if "attention_mask" in call or "mask" in call:
        names.append("attention_mask")
    if "positions" in call or "embeddings" in call:
        names.append("positions")
    if "source" in call and variant.get("structure") == "encoder_decoder":
        names.append("source")
    return names


def example(names: Sequence[str], batch: int, length: int, past: int, vocabulary: int) -> tuple[Any, ...]:
    """Inputs of a call; all sizes differ, so that none is taken for another."""
    tokens = torch.arange(batch * length).reshape(batch, length) % vocabulary
    made = {
        "tokens": tokens,
        "attention_mask": torch.ones(batch, past + length, dtype=torch.int64),
        "positions": torch.arange(past, past + length).expand(batch, length).contiguous(),
        "source": torch.arange(batch * (length + 3)).reshape(batch, length + 3) % vocabulary,
    }
    return tuple(made[name] for name in names)


def dynamic(names: Sequence[str], count: int, axis: int) -> Any:
    """Which axes of which input are free."""
    batch, length, past = (torch.export.Dim.DYNAMIC,) * 3
    shapes = tuple({0: batch, 1: length} for _ in names)
    return {"given": shapes, "past": tuple({0: batch, axis: past} for _ in range(count))}


def build(request: Mapping[str, Any]) -> Exported:
    """The module with its weights, ready to be traced."""
    given = request["given"]
    plan, lines = given["map"], Lines(given["file"], given["lines"])
    source = Source(request["module"])
    kind = Source(plan["python"]).make if plan.get("python") else ModuleMap
    config, dtype = request["config"], getattr(torch, request["dtype"])
    module_map = kind(source, plan, lines)
    with np.load(request["weights"], allow_pickle=False) as arrays:
        params = {name: torch.from_numpy(arrays[name]).to(dtype) for name in arrays.files}
    held = module_map.held(config, params, dtype)
    model = Exported(module_map, held, config, dtype, inputs_of(plan, config))
    model.eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    if request["cache"]:
        protocol = plan.get("cache", {}).get("protocol", "none")
        if protocol not in ("object", "returned"):
            what = (
                "says nothing of a cache"
                if protocol == "none"
                else "keeps its cache in buffers of the module"
            )
            raise Refused(f"--cache: the map {what}; an exported file takes it in and hands it out")
        length = 5
        tokens = example(model.names, 2, length, 0, config["vocab_size"])
        given_now = dict(zip(model.names, tokens, strict=True))
        given_now["attention_mask"] = given_now.get("attention_mask", torch.ones(2, length)) != 0
        if "attention_mask" not in model.names:
            del given_now["attention_mask"]
        _, after = module_map.call(held, given_now, config, dtype, None, None)
        model.past = State(plan["cache"], after.held, length)
    return model


def arguments(model: Exported, batch: int, length: int, past: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """A call with a past of so many tokens."""
    given = example(model.names, batch, length, past, model.config["vocab_size"])
    if model.past is None:
        return given, ()
    random = torch.Generator().manual_seed(0)
    before = []
    for shape in model.past.shapes:
        sizes = list(shape)
        sizes[0], sizes[model.past.axis] = batch, past
        before.append(torch.randn(sizes, generator=random).to(model.dtype))
    return given, tuple(before)


def export(model: Exported, request: Mapping[str, Any]) -> None:
    """Write the file. Raises what the exporter raises."""
    past = 0 if model.past is None else 7
    given, before = arguments(model, 2, 5, past)
    axis = 2 if model.past is None else model.past.axis
    layers = range(len(before) // 2)
    names = [NAMES.get(name, name) for name in model.names]
    names += [f"past_key_values.{i}.{part}" for i in layers for part in ("key", "value")]
    outputs = ["logits", *(f"present.{i}.{part}" for i in layers for part in ("key", "value"))]
    torch.onnx.export(
        model,
        (given, before),
        request["output"],
        input_names=names,
        output_names=outputs,
        dynamic_shapes=dynamic(model.names, len(before), axis),
        opset_version=request["opset"],
        dynamo=True,
        external_data=request["external"],
        optimize=True,
        verbose=False,
    )


def outputs(model: Exported, request: Mapping[str, Any]) -> None:
    """What the module itself gives for calls that are asked about, each with what the one before it left."""
    for number, calls in enumerate(request["calls"]):
        with np.load(calls, allow_pickle=False) as arrays:
            steps = int(arrays["steps"])
            held: Sequence[Any] = ()
            results = {}
            for step in range(steps):
                given = tuple(torch.from_numpy(arrays[f"{name}/{step}"]) for name in model.names)
                if model.past is not None and not held:
                    batch = given[0].shape[0]
                    held = [
                        torch.zeros(
                            [
                                batch if i == 0 else 0 if i == model.past.axis else s
                                for i, s in enumerate(shape)
                            ],
                            dtype=model.dtype,
                        )
                        for shape in model.past.shapes
                    ]
                made = model(given, tuple(held))
                logits, *held = made if isinstance(made, tuple) else (made,)
                results[f"logits/{step}"] = logits.to(torch.float64).numpy()
        np.savez(Path(request["folder"]) / f"source-{number}.npz", **results)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Warnings and the exporter's log go into the log alone."""
    logging.captureWarnings(capture=True)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        yield


def main(path: str) -> int:
    """Do what the request says. 0 when it is done, 1 when it is refused; `answer.json` says why."""
    request = json.loads(Path(path).read_text(encoding="utf-8"))
    answer: dict[str, Any] = {"stage": "build"}
    begun = time.perf_counter()
    try:
        with torch.inference_mode(mode=False), torch.no_grad(), quiet():
            model = build(request)
            answer["stage"] = "run"
            outputs(model, request)
            answer["stage"], begun = "export", time.perf_counter()
            export(model, request)
            answer["seconds"] = time.perf_counter() - begun
            answer["parameters"] = sum(p.numel() for p in dict.fromkeys(model.parameters()))
            answer["stage"] = "done"
    except (Refused, MapError, NotImplementedError) as error:
        answer["error"] = str(error)
    except Exception as error:
        answer["error"] = reason(error)
        traceback.print_exc()
    (Path(request["folder"]) / "answer.json").write_text(json.dumps(answer), encoding="utf-8")
    return 0 if answer["stage"] == "done" else 1


def reason(error: BaseException) -> str:
    """The innermost cause of an exporter's error, in one line."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing in ("onnxscript", "onnx"):
        return f"it needs the package {missing}, which this interpreter does not have: pip install {missing}"
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    first = " ".join(lines[: 2 if lines[0].endswith(":") else 1])
    return f"{type(error).__name__}: {first}"[:400]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
