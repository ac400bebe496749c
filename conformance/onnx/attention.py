"""Attentions in a graph that are spelled out: product, scale, mask, softmax, product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from conformance.onnx.masking import visible
from conformance.onnx.merging import NOT_MERGED, output_of
from conformance.onnx.norms import Norm
from conformance.onnx.operators import Array
from conformance.onnx.products import Heads, Operand, Product, by_head, split_heads
from conformance.onnx.projections import Projection, Traced, trace
from conformance.onnx.scores import (
    axis_name,
    factors_of,
    find_first,
    find_second,
    masks,
    path_between,
    query_first,
    scale_of,
    scores_of,
    sides_of,
    summed_axis,
)
from conformance.onnx.visibility import Visibility
from conformance.onnx.walk import Looks

if TYPE_CHECKING:
    import onnx_ir as ir

    from conformance.onnx.walk import Walk

SPLIT = "the heads are not split off as columns of the projections"
MERGED = "the heads are not put side by side before the output projection"
MASKED_AFTER = "the weights are multiplied by a mask after the softmax"


@dataclass(frozen=True)
class Attention:
    """One attention. What could not be read is None; `problems` says what is plainly wrong, or why not."""

    node: ir.Node
    kind: str
    """`decomposed`, or the operator with its domain."""
    q: Traced | None
    k: Traced | None
    v: Traced | None
    z: ir.Value
    heads: int | None
    kv_heads: int | None
    d_head: int | None
    d_value: int | None
    grouping: str | None
    """repeat: query head h reads kv head h // group; tile: h mod Hkv; none; other."""
    scale: float | None
    scale_how: str
    softmax_axis: str | None
    """Which axis of the weights sums to one: key, query, head, batch, other."""
    visibility: Visibility
    prefill: Visibility | None
    output: Projection | None
    q_columns: Array | None = None
    k_columns: Array | None = None
    v_columns: Array | None = None
    o_rows: Array | None = None
    scores: ir.Value | None = None
    masked: ir.Value | None = None
    weights: ir.Value | None = None
    axes: tuple[int, ...] | None = None
    """Of scores, masked scores and weights with four axes: where batch, head, query and key are."""
    problems: tuple[str, ...] = ()
    scale_at: tuple[ir.Node, ...] = ()
    """Factors between the product and the softmax."""
    counts_padding: bool = False
    """An operator that is told how many tokens each sequence has: padding, if any, has to stand behind them."""

    @property
    def place(self) -> ir.Node:
        """The node to name when the attention is meant."""
        return self.node


def find_decomposed(looks: Looks, norms: Mapping[ir.Value, Norm]) -> list[Attention]:
    """Every softmax between two products of activations."""
    found = []
    for node in looks.main.graph:
        if node.op_type == "Softmax" and node.inputs[0] is not None:
            attention = _around(looks, node, norms)
            if attention is not None:
                found.append(attention)
    return found


def _around(looks: Looks, softmax: ir.Node, norms: Mapping[ir.Value, Norm]) -> Attention | None:
    walk = looks.main
    after = find_second(walk, softmax.outputs[0])
    source = softmax.inputs[0]
    assert source is not None
    first = find_first(walk, source)
    if after is None or first is None:
        return None
    second, weights, way = after
    shape = walk.partial.shape(source)
    if shape is None:
        return None
    left, values = sides_of(second, weights)
    problems: list[str] = []
    key = summed_axis(walk, softmax.outputs[0], shape, way, second, left)
    path = path_between(walk, first.output, source)
    q_first = query_first(walk, first, path, shape, key)
    q_side, k_side = (first.operands[0], first.operands[1]) if q_first else first.operands[::-1]
    traced = [trace(walk, side.value, norms, looks.states) for side in (q_side, k_side, values)]
    q, k, v = traced
    heads, columns = _columns(looks, first, second, (q_side, k_side, values), traced, problems)
    scale, how = scale_of(walk, first, path, source, q, k)
    seen, prefill, axes = visible(looks, first, path, source, shape, key, q_first, heads)
    scores = scores_of(walk, first.output, path)
    output, rows = output_of(walk, second, heads, looks.batch)
    if rows is NOT_MERGED:
        rows = None
        problems.append(MERGED)
    grouping, kv_heads = grouping_of(columns[1], columns[2])
    named = axis_name(softmax, shape, key, axes)
    if any(masks(walk, step) for step in way):
        problems.append(MASKED_AFTER)
    return Attention(
        softmax,
        "decomposed",
        q,
        k,
        v,
        second.output,
        heads.count if heads else None,
        kv_heads,
        _width(walk, q_side.value, q_side.summed),
        _own(walk, values),
        grouping,
        scale,
        how,
        named,
        seen,
        prefill,
        output,
        columns[0],
        columns[1],
        columns[2],
        rows,
        scores,
        source,
        weights,
        axes,
        tuple(problems),
        factors_of(walk, path),
    )


def _width(walk: Walk, value: ir.Value, axis: int) -> int | None:
    shape = walk.partial.shape(value)
    return None if shape is None else shape[axis]


def _own(walk: Walk, operand: Operand) -> int | None:
    own = operand.axes[-2]
    return None if own is None else _width(walk, operand.value, own)


def _columns(
    looks: Looks,
    first: Product,
    second: Product,
    sides: Sequence[Operand],
    traced: Sequence[Traced],
    problems: list[str],
) -> tuple[Heads | None, list[Array | None]]:
    """Columns of the three projections as [head, feature], and how batch and head are laid out."""
    for heads in split_heads(first.lead, looks.batch):
        found: list[Array | None] = []
        for product, side, one in zip((first, first, second), sides, traced, strict=True):
            if one.columns is None or product.lead != first.lead:
                found.append(None)
                continue
            matrix = by_head(side, one.columns, product.lead, heads, looks.batch)
            features_last = side is not sides[2]
            if matrix is not None and not features_last:
                matrix = matrix.swapaxes(1, 2)
            if matrix is None or not (matrix == matrix[:, :1]).all():
                break
            found.append(matrix[:, 0])
        else:
            if any(f is not None for f in found):
                return heads, found
    if any(one.columns is not None for one in traced):
        problems.append(SPLIT)
    options = split_heads(first.lead, looks.batch)
    return (options[0] if options else None), [None, None, None]


def grouping_of(k: Array | None, v: Array | None) -> tuple[str | None, int | None]:
    """How query heads share key and value heads, and how many of those there are."""
    kinds, counts = [], []
    for columns in (k, v):
        if columns is None:
            return None, None
        _, index, inverse = np.unique(columns, axis=0, return_index=True, return_inverse=True)
        count, heads = len(index), len(columns)
        rank = np.argsort(np.argsort(index))  # heads in the order in which they first appear
        read = rank[inverse.reshape(-1)]
        counts.append(count)
        if heads % count:
            kinds.append("other")
        elif (read == np.arange(heads) // (heads // count)).all():
            kinds.append("repeat" if count < heads else "none")
        elif (read == np.arange(heads) % count).all():
            kinds.append("tile")
        else:
            kinds.append("other")
    if counts[0] != counts[1]:  # values of other heads than the keys' (differential attention): not read
        return None, None
    if kinds[0] != kinds[1]:
        return "other", None
    return kinds[0], counts[0]
