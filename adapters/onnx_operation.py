"""Runs an ONNX file that is one operation; `conformance run attention.onnx` grades it through this file.

Two arguments: the file, and a folder with `recipe.json`, which says which operation it is and which
inputs are its arguments. What is built into the graph (an axis, an eps) is graded where it is what a
case asks for.
"""

import json
import math
import os
import sys
from pathlib import Path

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import numpy as np
import onnxruntime

RECIPE = json.loads((Path(sys.argv[2]) / "recipe.json").read_text(encoding="utf-8"))
OPERATION = RECIPE["operation"]
INPUTS, FIXED = OPERATION["inputs"], OPERATION["fixed"]
TYPES = {"int64": np.int64, "int32": np.int32, "bool": np.bool_, "float": np.float32, "float16": np.float16}

framework = "numpy"
dtype = "float16" if INPUTS[next(iter(INPUTS))]["dtype"] == "float16" else "float32"

_options = onnxruntime.SessionOptions()
_options.log_severity_level = 4
_options.intra_op_num_threads = _options.inter_op_num_threads = 1
_session = onnxruntime.InferenceSession(sys.argv[1], _options, providers=["CPUExecutionProvider"])


def _run(**given):
    feeds = {}
    for name, entry in INPUTS.items():
        array = np.asarray(given[name])
        if entry["rank"] is not None and array.ndim != entry["rank"]:
            raise NotImplementedError(f"the graph's {name} has {entry['rank']} axes")
        feeds[entry["name"]] = array.astype(TYPES[entry["dtype"]])
    return _session.run([OPERATION["output"]], feeds)[0]


def _same(name, value):
    """Refuse another value than the one that is built in."""
    built_in = FIXED.get(name, value)
    if not math.isclose(built_in, value, rel_tol=1e-6):
        raise NotImplementedError(f"the graph has {name} = {built_in:g}")


def _softmax(x, axis):
    _same("axis", axis if FIXED.get("axis", axis) == axis else axis % x.ndim)
    return _run(x=x)


def _layer_norm(x, weight, bias, eps):
    _same("eps", eps)
    if "bias" not in INPUTS:
        raise NotImplementedError("the graph has no input for a bias")
    return _run(x=x, weight=weight, bias=bias)


def _rms_norm(x, weight, eps):
    _same("eps", eps)
    return _run(x=x, weight=weight)


def _rope(x, positions, theta):
    batch, length = len(x), x.shape[2]
    pairs = x.shape[3] // 2
    frequency = float(theta) ** (-np.arange(pairs) / pairs)
    given = {"x": x}
    if "cos" in INPUTS:
        places = np.arange(int(positions.max()) + 1) if "positions" in INPUTS else np.asarray(positions)
        angles = places[:, None] * frequency
        if "positions" not in INPUTS and INPUTS["cos"]["rank"] == 3:
            angles = np.broadcast_to(angles, (batch, *angles.shape))
        given |= {"cos": np.cos(angles), "sin": np.sin(angles)}
    if "positions" in INPUTS:
        given["positions"] = np.broadcast_to(positions, (batch, length))
    return _run(**given)


def _attention(q, k, v, mask=None, is_causal=False):
    rank = INPUTS["q"]["rank"]
    if FIXED.get("is_causal", is_causal) != is_causal:
        raise NotImplementedError(f"the graph has is_causal = {FIXED['is_causal']}")
    if is_causal and FIXED and q.shape[2] != k.shape[2]:
        raise NotImplementedError("the operator's triangle begins at the top left; it takes a past as inputs")
    given = {"q": q, "k": k, "v": v}
    if rank == 3:
        if FIXED.get("heads") != [q.shape[1], k.shape[1]]:
            raise NotImplementedError(f"the graph has {FIXED.get('heads')} query and key heads")
        given = {n: t.transpose(0, 2, 1, 3).reshape(len(t), t.shape[2], -1) for n, t in given.items()}
    if "mask" in INPUTS:
        shape = (len(q), q.shape[1], q.shape[2], k.shape[2])
        visible = np.broadcast_to(True if mask is None else mask, shape)
        given["mask"] = (
            visible if INPUTS["mask"]["dtype"] == "bool" else np.where(visible, 0.0, -np.inf).astype(q.dtype)
        )
    elif mask is not None:
        raise NotImplementedError("the graph has no input for a mask")
    out = _run(**given)
    if rank == 3:
        out = out.reshape(len(q), q.shape[2], q.shape[1], -1).transpose(0, 2, 1, 3)
    return out


globals()[OPERATION["name"]] = {
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "rope": _rope,
    "attention": _attention,
}[OPERATION["name"]]
