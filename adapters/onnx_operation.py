"""Runs an ONNX file that is one operation; `conformance run attention.onnx` grades it through this file.

Two arguments: the file, and a folder with `recipe.json`, which says which operation it is and which
inputs are its arguments. What is built into the graph (an axis, an eps) is graded where it is what a
case asks for.
"""

import os
import sys
from pathlib import Path

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime
from onnx_feeds import operation_feeds, operation_shape, read

OPERATION = read(Path(sys.argv[2]))["operation"]
INPUTS = OPERATION["inputs"]

framework = "numpy"
dtype = "float16" if INPUTS[next(iter(INPUTS))]["dtype"] == "float16" else "float32"

_options = onnxruntime.SessionOptions()
_options.log_severity_level = 4
_options.intra_op_num_threads = _options.inter_op_num_threads = 1
_session = onnxruntime.InferenceSession(sys.argv[1], _options, providers=["CPUExecutionProvider"])


def _run(**given):
    out = _session.run([OPERATION["output"]], operation_feeds(OPERATION, given))[0]
    shape = operation_shape(OPERATION, given)
    return out if shape is None else out.reshape(shape).transpose(0, 2, 1, 3)


def _softmax(x, axis):
    return _run(x=x, axis=axis)


def _layer_norm(x, weight, bias, eps):
    return _run(x=x, weight=weight, bias=bias, eps=eps)


def _rms_norm(x, weight, eps):
    return _run(x=x, weight=weight, eps=eps)


def _rope(x, positions, theta):
    return _run(x=x, positions=positions, theta=theta)


def _attention(q, k, v, mask=None, is_causal=False):
    return _run(q=q, k=k, v=v, mask=mask, is_causal=is_causal)


globals()[OPERATION["name"]] = {
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "rope": _rope,
    "attention": _attention,
}[OPERATION["name"]]
