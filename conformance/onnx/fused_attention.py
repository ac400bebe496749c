"""Attentions that are one operator: of ai.onnx (opset 23 on) and of com.microsoft."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from conformance.onnx import visibility
from conformance.onnx.attention import MERGED, SPLIT, Attention, grouping_of
from conformance.onnx.fused import ATTENTIONS
from conformance.onnx.fused_operands import Given, at, operands, pads, rotated
from conformance.onnx.merging import NOT_MERGED
from conformance.onnx.norms import Norm
from conformance.onnx.operators import Array
from conformance.onnx.packed_attention import output_of_operator, packed
from conformance.onnx.partial import attributes_of
from conformance.onnx.visibility import UNKNOWN, Visibility
from conformance.onnx.walk import Looks, Walk

if TYPE_CHECKING:
    import onnx_ir as ir


def find_fused(looks: Looks, norms: Mapping[ir.Value, Norm]) -> list[Attention]:
    """Every attention operator."""
    found = []
    for node in looks.main.graph:
        if node.op_type not in ATTENTIONS or not node.inputs or node.inputs[0] is None:
            continue
        try:
            if node.domain == "com.microsoft":
                read = {"Attention": packed, "GroupQueryAttention": _grouped}.get(node.op_type, _multi_head)
                found.append(read(looks, node, norms))
            elif node.op_type == "Attention":
                found.append(_standard(looks, node, norms))
        except (KeyError, ValueError, TypeError, IndexError, ZeroDivisionError):
            # An attribute is missing, or sizes contradict each other: the runtime will say so.
            missing = looks.main.partial.missing
            missing[node.op_type] = missing.get(node.op_type, 0) + 1
    return found


def _standard(looks: Looks, node: ir.Node, norms: Mapping[ir.Value, Norm]) -> Attention:
    attributes = attributes_of(node)
    seen = _masked(looks, node, bool(attributes.get("is_causal")), at(node, 3), at(node, 4))
    heads, kv_heads = attributes.get("q_num_heads"), attributes.get("kv_num_heads")
    given = operands(looks, node, norms, (heads, kv_heads), past=(at(node, 4), at(node, 5)))
    made = _made(looks, node, given, attributes.get("scale"), seen, "ai.onnx.Attention")
    if attributes.get("softcap"):
        made = replace(made, scale=None, scale_how="not a plain factor (softcap)")
    counted = at(node, 6) is not None
    if at(node, 3) is None and not counted:
        made = unpadded(looks, made)
    return replace(made, counts_padding=counted)


def _multi_head(looks: Looks, node: ir.Node, norms: Mapping[ir.Value, Norm]) -> Attention:
    attributes = attributes_of(node)
    heads = int(attributes["num_heads"])
    main, early = _masked(looks, node, bool(attributes.get("unidirectional")), at(node, 5), at(node, 6))
    hides = None if at(node, 4) is None else pads(looks, at(node, 4))
    if hides is not None and main.kind != "unknown":
        main = replace(main, padding=hides or bool(main.padding))
    given = operands(looks, node, norms, (heads, heads), past=(at(node, 6), at(node, 7)), bias=at(node, 3))
    made = _made(
        looks, node, given, attributes.get("scale") or None, (main, early), f"com.microsoft.{node.op_type}"
    )
    if at(node, 4) is None and at(node, 5) is None:
        made = unpadded(looks, made)
    return replace(made, counts_padding=at(node, 4) is not None and hides is None)


def _grouped(looks: Looks, node: ir.Node, norms: Mapping[ir.Value, Norm]) -> Attention:
    """GroupQueryAttention: always causal, of sequences whose lengths it is told."""
    attributes = attributes_of(node)
    counts = int(attributes["num_heads"]), int(attributes["kv_num_heads"])
    window = int(attributes.get("local_window_size", -1))
    seen = Visibility("causal" if window < 0 else "window", padding=None, fill=-math.inf)
    bias = at(node, 10)
    main, early = (seen, seen) if bias is None else _masked(looks, node, True, bias, at(node, 3))
    given = operands(looks, node, norms, counts, past=(at(node, 3), at(node, 4)))
    if attributes.get("do_rotary"):
        given = [
            replace(o, traced=rotated(node, o.traced)) if i < 2 and o.traced is not None else o
            for i, o in enumerate(given)
        ]
    made = _made(
        looks, node, given, attributes.get("scale") or None, (main, early), f"com.microsoft.{node.op_type}"
    )
    if attributes.get("smooth_softmax") or attributes.get("softcap") or at(node, 11) is not None:
        made = replace(made, scale=None, scale_how="not a plain factor (softcap or sink)")
    return replace(made, counts_padding=bias is None)


def unpadded(looks: Looks, attention: Attention) -> Attention:
    """Of an operator that gets no mask: padding, where the model is told of any, is not hidden."""
    if looks.padded is None:
        return attention
    return replace(attention, visibility=replace(attention.visibility, padding=False))


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
        hides = None if padded is None else visibility.pads(main, padded)
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
    given: Sequence[Given],
    scale: Any,
    seen: tuple[Visibility, Visibility | None],
    kind: str,
) -> Attention:
    """An operator with q, k and v as inputs, of 4 axes or of 3 with the heads side by side."""
    walk = looks.main
    columns: list[Array | None] = []
    problems: list[str] = []
    for one in given:
        columns.append(_heads_of(one.columns, one.count))
        if one.columns is not None and columns[-1] is None:
            problems.append(SPLIT)
    q, k, v = given
    grouping, distinct = _grouping([q.count, k.count, v.count], columns)
    if scale is None and q.width:
        scale = 1 / math.sqrt(q.width)
    traced = [one.traced for one in given]
    factors = [t.factor for t in traced[:2] if t is not None]
    total = (
        None
        if scale is None or any(f is None for f in factors)
        else float(scale) * math.prod(f for f in factors if f)
    )
    how = "in the operator" + "".join(
        f" and on {name}" for name, t in zip("qk", traced[:2], strict=True) if t is not None and t.scaled_by
    )
    output, rows = output_of_operator(walk, node.outputs[0], q.count, v.width)
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
        q.count,
        distinct,
        q.width,
        v.width,
        grouping,
        total,
        how,
        "key",
        seen[0],
        seen[1],
        output,
        columns[0],
        _spread(columns[1], q.count),
        _spread(columns[2], q.count),
        rows,
        problems=tuple(problems),
    )


def _heads_of(columns: Array | None, count: int | None) -> Array | None:
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


def _grouping(counts: list[int | None], columns: list[Array | None]) -> tuple[str | None, int | None]:
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
