"""What becomes of the heads: layouts, then the output projection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from conformance.onnx.operators import Array
from conformance.onnx.products import Heads, Product
from conformance.onnx.projections import Projection, find_projection
from conformance.onnx.walk import Walk

if TYPE_CHECKING:
    import onnx_ir as ir

NOT_MERGED = np.empty(0, np.int64)
"""The rows of an output projection that gets numbers of several positions."""
FARTHEST = 14
"""Layouts between the heads and their projection."""


def output_of(
    walk: Walk, second: Product, heads: Heads | None, batch: int
) -> tuple[Projection | None, Array | None]:
    """The projection that the heads go into, and which [head, feature] each of its rows is."""
    shape = walk.partial.shape(second.output)
    if shape is None:
        return None, None
    values_second = True
    width = shape[second.order[-1]] if values_second else 0
    index: Array | None = None
    if heads is not None:
        by_lead = np.arange(heads.count)
        grid = np.broadcast_to(by_lead[None, :], (batch, heads.count))
        lead = (grid if heads.batch_first else grid.T).reshape(second.lead)
        full = lead[..., None, None] * width + np.arange(width)
        full = np.broadcast_to(full, (*second.lead, shape[second.order[-2]], width))
        index = np.transpose(full, np.argsort(second.order))
    return follow_to_projection(walk, second.output, index)


def follow_to_projection(
    walk: Walk, value: ir.Value, index: Array | None
) -> tuple[Projection | None, Array | None]:
    """From the heads' output through layouts to the product with a weight, rows in its order."""
    for _ in range(FARTHEST):
        step = None
        for node, place in walk.readers(value):
            if node.op_type in ("MatMul", "Gemm", "FusedMatMul", "MatMulNBits") and place == 0:
                projection = find_projection(walk, node.outputs[0])
                if projection is not None:
                    rows = None
                    if index is not None:
                        flat = index.reshape(-1, index.shape[-1])
                        rows = flat[0] if (flat == flat[:1]).all() else NOT_MERGED
                    return with_bias(walk, projection), rows
            if place == 0 and walk.moves(node):
                step = node
        if step is None:
            return None, None
        index = None if index is None else walk.apply(step, value, index, step.outputs[0])
        value = step.outputs[0]
    return None, None


def with_bias(walk: Walk, projection: Projection) -> Projection:
    """The same with the bias that is added to it next, if there is one."""
    if projection.bias is not None:
        return projection
    value = projection.output
    for _ in range(3):
        readers = [node for node, _ in walk.readers(value) if node.op_type != "Shape"]
        if len(readers) != 1:
            return projection
        node = readers[0]
        if node.op_type == "Add":
            found = find_projection(walk, node.outputs[0])
            return found if found is not None and found.node is projection.node else projection
        if not walk.moves(node):
            return projection
        value = node.outputs[0]
    return projection
