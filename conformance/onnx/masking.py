"""What the mask of an attention that is spelled out hides."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from conformance.onnx import visibility
from conformance.onnx.operators import Array
from conformance.onnx.products import Heads, Product
from conformance.onnx.visibility import Visibility
from conformance.onnx.walk import Looks, Walk

if TYPE_CHECKING:
    import onnx_ir as ir


def visible(
    looks: Looks,
    first: Product,
    path: list[ir.Node] | None,
    source: ir.Value,
    shape: tuple[int, ...],
    key: int | None,
    q_first: bool,
    heads: Heads | None,
) -> tuple[Visibility, Visibility | None, tuple[int, ...] | None]:
    """What the mask hides, with a past and without, and where batch, head, query and key are."""
    axes = None
    size = looks.main.partial.shape(first.output)
    if len(shape) == 4 and len(first.lead) == 2 and heads is not None and size == shape:
        batch_axis, head_axis = first.order[:2] if heads.batch_first else first.order[1::-1]
        query_axis, key_axis = first.order[2:] if q_first else first.order[:1:-1]
        if key is None or key == key_axis:
            axes = (batch_axis, head_axis, query_axis, key_axis)
    if path is None or heads is None:
        return visibility.UNKNOWN, None, axes
    main = _added(looks.main, first, source, heads, looks.batch, q_first)
    if main is None:
        return visibility.UNKNOWN, None, axes
    seen = visibility.classify(main)
    if looks.padded is not None:
        padded = _added(looks.padded, first, source, heads, looks.batch, q_first)
        seen = replace(seen, padding=None if padded is None else visibility.pads(main, padded))
    prefill = None
    if looks.prefill is not None:
        early = _added(looks.prefill, first, source, heads, looks.batch, q_first)
        prefill = visibility.UNKNOWN if early is None else visibility.classify(early)
    return seen, prefill, axes


def _added(
    walk: Walk, first: Product, source: ir.Value, heads: Heads, batch: int, q_first: bool
) -> Array | None:
    """What the softmax gets where all scores are zero: [batch, head, query, key]."""
    shape = walk.partial.shape(first.output)
    if shape is None:
        return None
    made = walk.evaluated(source, first.output, np.zeros(shape, np.float32))
    if made is None or made.size != int(np.prod(shape)):
        return None
    if made.shape != shape:  # with its axes merged, or split: the order of the numbers is the same
        if made.shape[-2:] != shape[-2:]:
            return None
        made = made.reshape(shape)
    laid = np.transpose(made, first.order)
    flat = laid.reshape(-1, *laid.shape[-2:])
    by = (batch, heads.count) if heads.batch_first else (heads.count, batch)
    split = flat.reshape(*by, *laid.shape[-2:])
    if not heads.batch_first:
        split = split.swapaxes(0, 1)
    return split if q_first else split.swapaxes(-1, -2)
