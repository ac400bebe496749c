"""What an attention operator is given: q, k and v, side by side or in one tensor, and their past."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from conformance.onnx.norms import Norm
from conformance.onnx.operators import Array
from conformance.onnx.projections import Rotation, Traced, find_projection, trace
from conformance.onnx.walk import Looks, Walk

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True)
class Given:
    """One of q, k and v: where it comes from, the columns of its projection, its heads and their width."""

    traced: Traced | None
    columns: Array | None
    count: int | None
    width: int | None


def at(node: ir.Node, index: int) -> ir.Value | None:
    """An input that may be missing."""
    return node.inputs[index] if index < len(node.inputs) else None


def operands(
    looks: Looks,
    node: ir.Node,
    norms: Mapping[ir.Value, Norm],
    counts: tuple[Any, Any],
    past: tuple[ir.Value | None, ir.Value | None],
    bias: ir.Value | None = None,
) -> list[Given]:
    """q, k and v of an operator whose first three inputs they are.

    `counts` are the heads of q and of k and v that its attributes name (None: the shapes tell), `past` its
    inputs of past keys and values, `bias` that of the three projections, side by side.
    """
    heads = [None if c is None else int(c) for c in (counts[0], counts[1], counts[1])]
    if at(node, 1) is None:
        found = _of_one(looks, node, norms, heads)
    else:
        found = [_one(looks, at(node, i), norms, heads[i]) for i in range(3)]
    begin = 0
    for i, one in enumerate(found):
        if one.traced is None:
            continue
        traced: Traced = one.traced
        if i and past[i - 1] is not None:
            traced = replace(traced, past=_state(looks, past[i - 1]), join=node, join_axis=2)
        if bias is not None:
            traced = _biased(traced, bias, begin)
            begin += (one.count or 0) * (one.width or 0)
        found[i] = replace(one, traced=traced)
    return found


def _one(looks: Looks, value: ir.Value | None, norms: Mapping[ir.Value, Norm], heads: int | None) -> Given:
    if value is None:
        return Given(None, None, heads, None)
    traced = trace(looks.main, value, norms, looks.states)
    shape = looks.main.partial.shape(value)
    if shape is not None and len(shape) == 4:
        return Given(traced, traced.columns, shape[1], shape[3])
    width = shape[-1] // heads if shape is not None and len(shape) == 3 and heads else None
    return Given(traced, traced.columns, heads, width)


def _of_one(
    looks: Looks, node: ir.Node, norms: Mapping[ir.Value, Norm], heads: Sequence[int | None]
) -> list[Given]:
    """q, k and v as one tensor [batch, position, heads of q, then of k, then of v], made at once or joined."""
    value = node.inputs[0]
    assert value is not None
    shape = looks.main.partial.shape(value)
    unknown = [Given(None, None, count, None) for count in heads]
    if shape is None or None in heads:
        return unknown
    counts = [int(count) for count in heads if count is not None]
    if len(shape) != 3:  # [batch, position, head, 3, width]: the runtime has it on other devices alone
        return [replace(one, width=shape[-1]) for one in unknown]
    width = shape[-1] // sum(counts)
    ends = np.cumsum([count * width for count in counts])
    maker = value.producer()
    if maker is not None and maker.op_type == "Concat" and len(maker.inputs) == 3:
        sizes = [(looks.main.partial.shape(part) or (0,))[-1] for part in maker.inputs]
        if sizes == [count * width for count in counts]:
            return [_one(looks, part, norms, count) for part, count in zip(maker.inputs, counts, strict=True)]
    whole = trace(looks.main, value, norms, looks.states)
    found = []
    for end, count in zip(ends, counts, strict=True):
        part = slice(int(end) - count * width, int(end))
        columns = None if whole.columns is None else whole.columns[..., part]
        # A copy for each, so that they can be told apart.
        found.append(Given(replace(whole, columns=columns, stages=()), columns, count, width))
    return found


def _biased(traced: Traced, bias: ir.Value, begin: int) -> Traced:
    """With a bias that the operator adds: what stands before it is not yet the document's tensor."""
    projection = traced.projection
    if projection is None or projection.bias is not None or traced.columns is None:
        return replace(traced, projection=None, columns=None, stages=())
    return replace(traced, projection=replace(projection, bias=bias, bias_begin=begin), stages=())


def rotated(node: ir.Node, traced: Traced) -> Traced:
    """An operand that the operator turns by position itself."""
    return replace(traced, rotation=Rotation(node, traced.operand, node.outputs[0], fused=True))


def _state(looks: Looks, value: ir.Value | None) -> ir.Value | None:
    """The cache from outside that goes into a value, as numbers and not by its shape alone."""
    todo = [] if value is None else [value]
    seen = set(todo)
    while todo:
        one = todo.pop()
        if one in looks.states:
            return one
        node = one.producer()
        if node is None or node.op_type in ("Shape", "Size"):
            continue
        if find_projection(looks.main, one) is not None:
            continue  # what lies before is another layer's
        for other in looks.main.carried(node):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return None


def states_in(looks: Looks, value: ir.Value | None) -> list[ir.Value]:
    """Key and value that are joined into one past."""
    node = None if value is None else value.producer()
    if value in looks.states and value is not None:
        return [value]
    if node is None or node.op_type != "Concat":
        return []
    found = [_state(looks, part) for part in node.inputs]
    return [state for state in found if state is not None]


def pads(looks: Looks, mask: ir.Value | None) -> bool | None:
    """Whether a mask [batch, key] hides the padding of the first sequence; None where it is another or unknown."""
    plain = looks.main.partial.known(mask)
    padded: Walk | None = looks.padded
    other = None if padded is None else padded.partial.known(mask)
    if plain is None or other is None or plain.ndim != 2 or other.shape != plain.shape:
        return None
    return bool((other[0] < plain[0]).any())
