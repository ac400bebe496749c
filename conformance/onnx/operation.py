"""A file that is no model but one operation: Attention, a norm, RoPE, softmax, or a function of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from conformance.onnx.partial import attributes_of

if TYPE_CHECKING:
    import onnx_ir as ir

ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "softmax": ("x",),
    "layer_norm": ("x", "weight", "bias"),
    "rms_norm": ("x", "weight"),
    "rope": ("x",),
    "attention": ("q", "k", "v"),
}
"""What a graph of the operation has as inputs, at least; other arguments may be built in."""

OPERATORS: Mapping[tuple[str, str], tuple[str, tuple[str, ...]]] = {
    ("", "Softmax"): ("softmax", ("x",)),
    ("", "LayerNormalization"): ("layer_norm", ("x", "weight", "bias")),
    ("", "RMSNormalization"): ("rms_norm", ("x", "weight")),
    ("", "SimplifiedLayerNormalization"): ("rms_norm", ("x", "weight")),
    ("", "RotaryEmbedding"): ("rope", ("x", "cos", "sin", "positions")),
    ("com.microsoft", "RotaryEmbedding"): ("rope", ("x", "positions", "cos", "sin")),
    ("", "Attention"): ("attention", ("q", "k", "v", "mask")),
}


def read_operation(graph: ir.Graph, eps: float | None = None) -> dict[str, Any] | None:
    """The operation that a graph is, as the adapter runs it; None where it is none.

    By its one operator; or by its inputs, where they have the names of an operation's arguments. `eps` is that
    of the norm in it, if there is one.
    """
    inputs = [value for value in graph.inputs if value.name not in graph.initializers]
    if not graph.outputs or not inputs:
        return None
    nodes = [node for node in graph if node.op_type not in ("Constant", "Identity")]
    if len(nodes) == 1:
        found = _of_operator(nodes[0], inputs)
        if found is not None:
            return {**found, "output": graph.outputs[0].name}
    names = {value.name for value in inputs}
    for name, needed in ARGUMENTS.items():
        known = {*needed, "mask", "positions", "cos", "sin"}
        if set(needed) <= names <= known and not (name == "rms_norm" and "bias" in names):
            made = {str(value.name): _entry(value) for value in inputs}
            return {
                "name": name,
                "inputs": made,
                "fixed": {} if eps is None else {"eps": eps},
                "output": graph.outputs[0].name,
            }
    return None


def _of_operator(node: ir.Node, inputs: list[ir.Value]) -> dict[str, Any] | None:
    known = OPERATORS.get((node.domain if node.domain != "ai.onnx" else "", node.op_type))
    if known is None:
        return None
    name, order = known
    attributes = attributes_of(node)
    made: dict[str, Any] = {}
    for value, argument in zip(node.inputs, order, strict=False):
        if value is not None and value in inputs:
            made[argument] = _entry(value)
    if not set(ARGUMENTS[name]) - {"bias"} <= set(made):
        return None
    fixed: dict[str, Any] = {}
    if name == "softmax":
        fixed["axis"] = int(attributes.get("axis", -1))
    elif name in ("layer_norm", "rms_norm"):
        fixed["eps"] = float(attributes.get("epsilon", 1e-5))
    elif name == "attention":
        fixed["is_causal"] = bool(attributes.get("is_causal"))
        fixed["heads"] = [attributes.get("q_num_heads"), attributes.get("kv_num_heads")]
    return {"name": name, "inputs": made, "fixed": fixed}


def _entry(value: ir.Value) -> dict[str, Any]:
    return {
        "name": value.name,
        "dtype": value.dtype.name.lower() if value.dtype is not None else "float",
        "rank": None if value.shape is None else len(value.shape),
        "sizes": None if value.shape is None else [_size(size) for size in value.shape],
    }


def _size(size: Any) -> int | str | None:
    """A size that is declared: a number, a name that other inputs may share, or nothing."""
    return size if isinstance(size, int) else str(size.value) if size.value else None
