"""Attentions that are one operator: of ai.onnx (opset 23 on) and of com.microsoft."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from conformance.onnx import visibility
from conformance.onnx.attention import MERGED, SPLIT, Attention, grouping_of
from conformance.onnx.fused import ATTENTIONS
from conformance.onnx.merging import NOT_MERGED, follow_to_projection
from conformance.onnx.norms import Norm
from conformance.onnx.operators import Array
from conformance.onnx.partial import attributes_of
from conformance.onnx.projections import Projection, Traced, trace
from conformance.onnx.visibility import UNKNOWN, Visibility
from conformance.onnx.walk import Looks, Walk

if TYPE_CHECKING:
    import onnx_ir as ir


def find_fused(looks: Looks, norms: Mapping[ir.Value, Norm]) -> list[Attention]:
    """Every attention operator."""
    found = []
    for node in looks.main.graph:
        if node.op_type in ATTENTIONS and node.inputs[0] is not None:
            microsoft = node.domain == "com.microsoft"
            if node.op_type == "Attention" and microsoft:
                found.append(_packed(looks, node))
            elif node.op_type == "Attention":
                found.append(_standard(looks, node, norms))
            else:
                found.append(_microsoft(looks, node, norms))
    return found


def _at(node: ir.Node, index: int) -> ir.Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


def _standard(looks: Looks, node: ir.Node, norms: Mapping[ir.Value, Norm]) -> Attention:
    attributes = attributes_of(node)
    seen = _masked(looks, node, bool(attributes.get("is_causal")), _at(node, 3), _at(node, 4))
    heads, kv_heads = attributes.get("q_num_heads"), attributes.get("kv_num_heads")
    past = (_at(node, 4), _at(node, 5))
    made = _made(
        looks, node, norms, heads, kv_heads, attributes.get("scale"), seen, past, "ai.onnx.Attention"
    )
    if attributes.get("softcap"):
        made = replace(made, scale=None, scale_how="not a plain factor (softcap)")
    return made


def _microsoft(looks: Looks, node: ir.Node, norms: Mapping[ir.Value, Norm]) -> Attention:
    attributes = attributes_of(node)
    grouped = node.op_type == "GroupQueryAttention"
    heads = int(attributes["num_heads"])
    kv_heads = int(attributes["kv_num_heads"]) if grouped else heads
    scale = attributes.get("scale") or None
    if grouped:
        window = int(attributes.get("local_window_size", -1))
        seen = Visibility("causal" if window < 0 else "window", padding=None, fill=-math.inf)
        past = (_at(node, 3), _at(node, 4))
        main, early = seen, seen
        if attributes.get("smooth_softmax") or attributes.get("softcap"):
            scale = None
    else:
        bias = _at(node, 5)
        main, early_or_none = _masked(looks, node, bool(attributes.get("unidirectional")), bias, None)
        early = early_or_none or main
        if _at(node, 4) is not None:
            main = replace(main, padding=True)
        past = (_at(node, 6), _at(node, 7))
    made = _made(
        looks, node, norms, heads, kv_heads, scale, (main, early), past, f"com.microsoft.{node.op_type}"
    )
    if _at(node, 1) is None:
        made = replace(made, k=None, v=None, k_columns=None, v_columns=None)
    return made


def _packed(looks: Looks, node: ir.Node) -> Attention:
    """com.microsoft Attention: the three projections are one matrix inside the operator."""
    walk = looks.main
    attributes = attributes_of(node)
    heads = int(attributes["num_heads"])
    weight, x = _at(node, 1), node.inputs[0]
    assert x is not None
    shape = walk.partial.shape(weight)
    one: Traced | None = None
    columns: list[Array | None] = [None, None, None]
    width = None
    if weight is not None and shape is not None and len(shape) == 2:
        sizes = [int(s) for s in attributes.get("qkv_hidden_sizes") or [shape[1] // 3] * 3]
        projection = Projection(node, x, weight, False, _at(node, 2), x, x)
        one = Traced(x, projection, None, 1.0, (), None, None, None, None, None, True, None, (), x)
        starts = np.cumsum([0, *sizes])
        columns = [starts[i] + np.arange(sizes[i]).reshape(heads, -1) for i in range(3)]
        width = sizes[0] // heads
    causal = bool(attributes.get("unidirectional"))
    seen = Visibility("causal" if causal else "none", fill=float(attributes.get("mask_filter_value", -1e4)))
    if _at(node, 5) is not None:
        seen = UNKNOWN
    elif _at(node, 3) is not None:
        seen = replace(seen, padding=True)
    scale = attributes.get("scale") or None
    if scale is None and width:
        scale = 1 / math.sqrt(width)
    d_value = None if columns[2] is None else columns[2].shape[1]
    output, rows = _output(walk, node.outputs[0], heads, d_value)
    return Attention(
        node,
        "com.microsoft.Attention",
        one,
        one,
        one,
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
        None,
        output,
        columns[0],
        columns[1],
        columns[2],
        rows,
    )


def _masked(
    looks: Looks, node: ir.Node, causal: bool, mask: ir.Value | None, past: ir.Value | None
) -> tuple[Visibility, Visibility | None]:
    """What an operator hides: its triangle, which takes the past into account, and the mask it is given."""
    whole = Visibility("causal", fill=-math.inf) if causal else Visibility("none")
    shape = looks.main.partial.shape(node.inputs[0])
    keys = looks.main.partial.shape(node.inputs[1]) if len(node.inputs) > 1 else None
    if causal and past is None and shape is not None and keys is not None and shape[-2] != keys[-2]:
        whole = Visibility("causal", past_ignored=True, fill=-math.inf)  # its triangle begins at the top left
    if mask is None:
        return whole, whole if looks.prefill is not None else None
    main, early, padded = (
        None if walk is None else _given(walk, mask, causal)
        for walk in (looks.main, looks.prefill, looks.padded)
    )
    if main is None:
        return UNKNOWN, None
    seen = visibility.classify(main)
    if looks.padded is not None:
        hides = None
        if padded is not None and padded.shape == main.shape:
            hides = bool((padded[0, :, -1, 0] < main[0, :, -1, 0]).all())
        elif padded is not None:
            wide = np.broadcast_to(main, np.broadcast_shapes(main.shape, padded.shape))
            padded = np.broadcast_to(padded, wide.shape)
            hides = bool((padded[0, :, -1, 0] < wide[0, :, -1, 0]).all())
        seen = replace(seen, padding=hides)
    prefill = None if looks.prefill is None else UNKNOWN if early is None else visibility.classify(early)
    return seen, prefill


def _given(walk: Walk, mask: ir.Value, causal: bool) -> Array | None:
    """A mask, boolean or added, as what is added to the scores; the operator's triangle included."""
    array = walk.partial.known(mask)
    if array is None or array.ndim < 2:
        return None
    added = np.where(array, 0.0, -np.inf) if array.dtype == np.bool_ else np.asarray(array, np.float64)
    while added.ndim < 4:
        added = added[None]
    if causal:
        queries, keys = added.shape[-2:]
        triangle = np.arange(keys)[None, :] <= np.arange(queries)[:, None] + keys - queries
        added = np.where(triangle, added, -np.inf)
    return added


def _made(
    looks: Looks,
    node: ir.Node,
    norms: Mapping[ir.Value, Norm],
    heads: Any,
    kv_heads: Any,
    scale: Any,
    seen: tuple[Visibility, Visibility | None],
    past: tuple[ir.Value | None, ir.Value | None],
    kind: str,
) -> Attention:
    """An operator with q, k and v as inputs, of 4 axes or of 3 with the heads side by side."""
    walk = looks.main
    traced: list[Traced | None] = []
    columns: list[Array | None] = []
    widths: list[int | None] = []
    counts = [heads, kv_heads, kv_heads]
    problems: list[str] = []
    for i in range(3):
        value = _at(node, i)
        if value is None:
            traced.append(None)
            columns.append(None)
            widths.append(None)
            continue
        one = trace(walk, value, norms, looks.states)
        own = past[min(i, 2) - 1] if i else None
        if own is not None:
            one = replace(one, past=own, join=node, join_axis=2)
        traced.append(one)
        shape = walk.partial.shape(value)
        if shape is not None and len(shape) == 4:
            counts[i] = shape[1]
            widths.append(shape[3])
        else:
            widths.append(shape[-1] // int(counts[i]) if shape is not None and counts[i] else None)
        columns.append(_heads_of(one.columns, counts[i]))
        if one.columns is not None and columns[i] is None:
            problems.append(SPLIT)
    grouping, distinct = _grouping(counts, columns)
    if scale is None and widths[0]:
        scale = 1 / math.sqrt(widths[0])
    factors = [t.factor for t in traced[:2] if t is not None]
    total = (
        None
        if scale is None or any(f is None for f in factors)
        else float(scale) * math.prod(f for f in factors if f)
    )
    how = "in the operator" + "".join(
        f" and on {name}" for name, t in zip("qk", traced[:2], strict=True) if t is not None and t.scaled_by
    )
    count = None if counts[0] is None else int(counts[0])
    output, rows = _output(walk, node.outputs[0], count, widths[2])
    if rows is NOT_MERGED:
        rows = None
        problems.append(MERGED)
    return Attention(
        node,
        kind,
        traced[0],
        traced[1],
        traced[2],
        node.outputs[0],
        count,
        distinct,
        widths[0],
        widths[2],
        grouping,
        total,
        how,
        "key",
        seen[0],
        seen[1],
        output,
        columns[0],
        _spread(columns[1], count),
        _spread(columns[2], count),
        rows,
        problems=tuple(problems),
    )


def _heads_of(columns: Array | None, count: Any) -> Array | None:
    """[head, feature] of an operand's columns; None where sequences or positions differ."""
    if columns is None or not count:
        return None
    if columns.ndim == 3:
        columns = columns.reshape(*columns.shape[:2], int(count), -1).transpose(0, 2, 1, 3)
    if columns.ndim != 4 or not (columns == columns[:1, :, :1]).all():
        return None
    return np.asarray(columns[0, :, 0])


def _spread(columns: Array | None, heads: int | None) -> Array | None:
    """One row for each query head, as query heads read them."""
    if columns is None or heads is None or heads % len(columns):
        return columns
    return np.repeat(columns, heads // len(columns), axis=0)


def _grouping(counts: list[Any], columns: list[Array | None]) -> tuple[str | None, int | None]:
    if counts[0] is None or counts[1] is None:
        return None, None
    heads = int(counts[0])
    spread = [_spread(c, heads) for c in columns[1:]]
    if all(c is not None for c in spread):
        return grouping_of(spread[0], spread[1])
    given = int(counts[1])
    if given != heads:
        return "repeat", given
    return None, None


def _output(
    walk: Walk, z: ir.Value, heads: int | None, width: int | None
) -> tuple[Projection | None, Array | None]:
    shape = walk.partial.shape(z)
    if shape is None or heads is None or width is None:
        return follow_to_projection(walk, z, None)
    index = np.arange(heads * width)
    form = (1, heads, 1, width) if len(shape) == 4 else (1, 1, heads * width)
    try:
        return follow_to_projection(walk, z, np.broadcast_to(index.reshape(form), shape))
    except ValueError:
        return follow_to_projection(walk, z, None)
