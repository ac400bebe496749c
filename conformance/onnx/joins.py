"""Where new keys and values are joined to those of a past."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.onnx.partial import attributes_of
from conformance.onnx.walk import Walk

if TYPE_CHECKING:
    import onnx_ir as ir

MOST = 20
"""Joins with nothing, and layouts, between a cache and where it is joined."""


def join_of(
    walk: Walk, node: ir.Node, states: frozenset[ir.Value]
) -> tuple[ir.Value, ir.Value, int, bool] | None:
    """(past, new, axis, whether the past is first) of a Concat with a cache that comes in from outside."""
    if node.op_type != "Concat" or len(node.inputs) != 2:
        return None
    for i in (0, 1):
        value, other = node.inputs[i], node.inputs[1 - i]
        if value is None or other is None:
            continue
        before = _past(walk, value)
        if before in states and walk.unknown(other):
            axis = int(attributes_of(node)["axis"])
            shape = walk.partial.shape(other)
            return before, other, axis % len(shape) if shape else axis, i == 0
    return None


def _past(walk: Walk, value: ir.Value) -> ir.Value:
    """The value before layouts, and before a Concat with nothing: a cache begins as an empty tensor."""
    for _ in range(MOST):
        value, _nodes = walk.behind(value)
        node = value.producer()
        if node is None or node.op_type != "Concat":
            break
        full = [v for v in node.inputs if v is not None and 0 not in (walk.partial.shape(v) or ())]
        if len(full) != 1:
            break
        value = full[0]
    return value
