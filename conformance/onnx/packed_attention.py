"""com.microsoft Attention: the three projections are one matrix inside the operator."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from conformance.onnx.attention import MERGED, Attention
from conformance.onnx.fused_operands import at, pads, states_in
from conformance.onnx.merging import NOT_MERGED, follow_to_projection
from conformance.onnx.norms import Norm
from conformance.onnx.operators import Array
from conformance.onnx.partial import attributes_of
from conformance.onnx.projections import Projection, Traced
from conformance.onnx.visibility import UNKNOWN, Visibility
from conformance.onnx.walk import Looks, Walk

if TYPE_CHECKING:
    import onnx_ir as ir


def packed(looks: Looks, node: ir.Node, norms: Mapping[ir.Value, Norm]) -> Attention:
    """Its attention; `norms` are not needed, since nothing stands between the matrix and the heads."""
    del norms
    walk = looks.main
    attributes = attributes_of(node)
    heads = int(attributes["num_heads"])
    weight, x = at(node, 1), node.inputs[0]
    assert x is not None
    shape = walk.partial.shape(weight)
    traced: list[Traced | None] = [None, None, None]
    columns: list[Array | None] = [None, None, None]
    width = None
    if weight is not None and shape is not None and len(shape) == 2:
        sizes = [int(s) for s in attributes.get("qkv_hidden_sizes") or [shape[1] // 3] * 3]
        starts = np.cumsum([0, *sizes])
        columns = [starts[i] + np.arange(sizes[i]).reshape(heads, -1) for i in range(3)]
        width = sizes[0] // heads
        projection = Projection(node, x, weight, False, at(node, 2), x, x)
        one = Traced(x, projection, None, 1.0, (), None, None, None, None, None, True, None, (), x)
        traced = [replace(one, columns=c) for c in columns]
        if at(node, 4) is not None:
            states = states_in(looks, at(node, 4))
            for i in (1, 2):
                state = states[min(i, len(states)) - 1] if states else None
                traced[i] = replace(one, columns=columns[i], past=state, join=node, join_axis=2)
    seen = _visible(looks, node, causal=bool(attributes.get("unidirectional")))
    if attributes.get("mask_filter_value") is not None:
        seen = replace(seen, fill=float(attributes["mask_filter_value"]))
    scale = attributes.get("scale") or None
    if scale is None and width:
        scale = 1 / math.sqrt(width)
    turned = bool(attributes.get("do_rotary"))  # by tables of its own, which nothing in the graph shows
    d_value = None if columns[2] is None else columns[2].shape[1]
    output, rows = output_of_operator(walk, node.outputs[0], heads, d_value)
    problems: tuple[str, ...] = ()
    if rows is NOT_MERGED:
        rows, problems = None, (MERGED,)
    return Attention(
        node,
        "com.microsoft.Attention",
        None if turned else traced[0],
        None if turned else traced[1],
        traced[2],
        node.outputs[0],
        heads,
        heads,
        width,
        d_value,
        "none",
        scale,
        "in the operator",
        "key",
        seen,
        seen if looks.prefill is not None else None,
        output,
        columns[0],
        columns[1],
        columns[2],
        rows,
        problems=problems,
        counts_padding=at(node, 3) is not None and pads(looks, at(node, 3)) is None,
    )


def _visible(looks: Looks, node: ir.Node, *, causal: bool) -> Visibility:
    """Its triangle takes the past into account; a mask that comes in is of whole keys, or not read."""
    if at(node, 5) is not None:
        return UNKNOWN
    seen = Visibility("causal" if causal else "none", fill=-1e4 if causal else None)
    mask = at(node, 3)
    if mask is None:
        return replace(seen, padding=False if looks.padded is not None else None)
    shape = looks.main.partial.shape(mask)
    if shape is None or len(shape) > 2:
        return UNKNOWN
    return replace(seen, padding=pads(looks, mask))


def output_of_operator(
    walk: Walk, z: ir.Value, heads: int | None, width: int | None
) -> tuple[Projection | None, Array | None]:
    """What an operator's heads, of 4 axes or side by side, are projected with."""
    shape = walk.partial.shape(z)
    if shape is None or heads is None or width is None:
        return follow_to_projection(walk, z, None)
    index = np.arange(heads * width)
    form = (1, heads, 1, width) if len(shape) == 4 else (1, 1, heads * width)
    try:
        return follow_to_projection(walk, z, np.broadcast_to(index.reshape(form), shape))
    except ValueError:
        return follow_to_projection(walk, z, None)
