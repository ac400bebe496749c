"""From an operand of an attention back to the matrix that made it, with all that lies between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from conformance.onnx.joins import join_of
from conformance.onnx.norms import Norm
from conformance.onnx.operators import Array
from conformance.onnx.partial import attributes_of
from conformance.onnx.walk import Walk

if TYPE_CHECKING:
    import onnx_ir as ir

LINEAR = frozenset(
    {
        *(
            "Mul",
            "Add",
            "Sub",
            "Neg",
            "Slice",
            "Split",
            "Concat",
            "Unsqueeze",
            "Squeeze",
            "Reshape",
            "Transpose",
        ),
        *("Cast", "Gather", "Flatten", "Identity", "Where", "ScatterND", "Expand", "ConcatFromSequence"),
    }
)
"""Operators that a rotation is spelled out with."""
LONGEST = 60


@dataclass(frozen=True)
class Projection:
    """`input @ weight + bias`. `node` is the product; `output` what it gives, bias included."""

    node: ir.Node
    input: ir.Value
    weight: ir.Value
    transposed: bool
    """Whether the weight stands as [out, in]."""
    bias: ir.Value | None
    output: ir.Value
    product: ir.Value
    bias_begin: int | None = None
    """Of a bias that an attention operator adds: where this operand's numbers begin, in the order of heads."""


@dataclass(frozen=True)
class Rotation:
    """Where features are turned by position: `start` before, `output` after."""

    node: ir.Node
    start: ir.Value
    output: ir.Value
    fused: bool


@dataclass(frozen=True)
class Traced:
    """An operand of an attention, followed back.

    `columns` has the operand's shape and holds, for each number, which column of the projection it is.
    """

    operand: ir.Value
    projection: Projection | None
    columns: Array | None
    factor: float | None
    scaled_by: tuple[ir.Node, ...]
    rotation: Rotation | None
    past: ir.Value | None
    join: ir.Node | None
    join_axis: int | None
    joined: ir.Value | None
    past_first: bool
    norm: Norm | None
    stages: tuple[tuple[ir.Value, Array], ...]
    """Values from the projection on to the operand, each with its columns; a rotation's result among them."""
    source: ir.Value
    """Where the walk ended: the projection's input, or the value that it could not get past."""


def trace(
    walk: Walk, operand: ir.Value, norms: Mapping[ir.Value, Norm], states: frozenset[ir.Value]
) -> Traced:
    """Follow an operand back to its projection."""
    chain: list[ir.Node] = []  # layouts, from the operand back
    followed: dict[ir.Node, ir.Value] = {}  # of those, which of their outputs
    factor: float | None = 1.0
    scaled: list[ir.Node] = []
    rotation: Rotation | None = None
    past: ir.Value | None = None
    join: ir.Node | None = None
    joined: ir.Value | None = None
    axis: int | None = None
    past_first = True
    norm: Norm | None = None
    projection: Projection | None = None
    value = operand
    for _ in range(LONGEST):
        node = value.producer()
        if node is None:
            break
        if value in norms and norm is None and len(walk.partial.shape(value) or ()) > 0:
            projection = find_projection(walk, value)
            if projection is None:
                norm = norms[value]
                value = norm.input
                continue
        if walk.moves(node) and node.inputs[0] is not None:
            chain.append(node)
            followed[node] = value
            value = node.inputs[0]
            continue
        scale = _scaling(walk, node)
        if scale is not None:
            number, value = scale
            factor = None if number is None or factor is None else factor * number
            scaled.append(node)
            continue
        projection = find_projection(walk, value)
        if projection is not None:
            break
        cache = join_of(walk, node, states)
        if cache is not None:
            past, value, axis, past_first = cache
            join, joined = node, node.outputs[0]
            chain.append(node)
            continue
        turned = _rotation(walk, node, value)
        if turned is not None and rotation is None:
            rotation = _whole(walk, turned, chain)
            value = rotation.start
            continue
        break
    stages = () if projection is None else tuple(_stages(walk, projection, chain[::-1], followed))
    complete = bool(stages) and len(stages) == len(chain) + 1
    columns = stages[-1][1] if complete else None
    if rotation is not None:
        stages += tuple((rotation.output, array) for value, array in stages if value is rotation.start)
    return Traced(
        operand,
        projection,
        columns,
        factor,
        tuple(scaled),
        rotation,
        past,
        join,
        axis,
        joined,
        past_first,
        norm,
        stages,
        value if projection is None else projection.input,
    )


def find_projection(walk: Walk, value: ir.Value) -> Projection | None:
    """The product with a weight that makes `value`, a bias between them included."""
    node = value.producer()
    if node is None:
        return None
    if node.op_type == "Add":
        for i in (0, 1):
            bias, rest = node.inputs[i], node.inputs[1 - i]
            if bias is None or rest is None or bias not in walk.fixed or not walk.unknown(rest):
                continue
            shape = walk.partial.shape(bias)
            if shape is None or max(shape, default=1) != int(np.prod(shape)) or len(shape) < 1:
                continue
            before, _ = walk.behind(rest)
            inner = find_projection(walk, before)
            if inner is not None and inner.bias is None and _flat(walk, before, rest):
                return Projection(
                    inner.node, inner.input, inner.weight, inner.transposed, bias, value, inner.product
                )
        return None
    return _product(walk, node, value)


def _flat(walk: Walk, before: ir.Value, after: ir.Value) -> bool:
    """Whether the layouts between a product and its bias leave the features last and whole."""
    a, b = walk.partial.shape(before), walk.partial.shape(after)
    return a is not None and b is not None and a[-1:] == b[-1:]


def _product(walk: Walk, node: ir.Node, value: ir.Value) -> Projection | None:
    if node.op_type not in ("MatMul", "Gemm", "FusedMatMul", "MatMulNBits") or len(node.inputs) < 2:
        return None
    x, weight = node.inputs[0], node.inputs[1]
    if x is None or weight is None or weight not in walk.fixed or not walk.unknown(x):
        return None
    if node.op_type == "MatMulNBits":  # a weight in blocks, which is not read
        return Projection(
            node, x, weight, False, node.inputs[5] if len(node.inputs) > 5 else None, value, value
        )
    attributes = attributes_of(node)
    if attributes.get("transA") or attributes.get("alpha", 1.0) != 1.0:
        return None
    bias = node.inputs[2] if node.op_type == "Gemm" and len(node.inputs) > 2 else None
    if bias is not None and attributes.get("beta", 1.0) != 1.0:
        return None
    shape = walk.partial.shape(weight)
    if shape is None or len(shape) != 2:
        return None
    return Projection(node, x, weight, bool(attributes.get("transB")), bias, value, value)


def _scaling(walk: Walk, node: ir.Node) -> tuple[float | None, ir.Value] | None:
    """(factor, what is scaled) of a product or quotient with one number."""
    if node.op_type not in ("Mul", "Div") or len(node.inputs) != 2:
        return None
    carried = walk.carried(node)
    if len(carried) != 1:
        return None
    value = carried[0]
    other = node.inputs[1] if node.inputs[0] is value else node.inputs[0]
    if node.op_type == "Div" and node.inputs[0] is not value:
        return None
    number = walk.partial.number(other)
    if number is None:
        return None
    return (number if node.op_type == "Mul" else 1 / number if number else None), value


def _rotation(walk: Walk, node: ir.Node, value: ir.Value) -> Rotation | None:
    if node.op_type == "RotaryEmbedding":
        first = node.inputs[0]
        return None if first is None else Rotation(node, first, value, fused=True)
    if node.op_type not in ("Add", "Concat", "Sub", "ScatterND") or len(walk.carried(node)) < 2:
        return None
    start = walk.source(value, LINEAR)
    if start is None or walk.partial.shape(start) is None:
        return None
    return Rotation(node, start, value, fused=False)


def _whole(walk: Walk, rotation: Rotation, chain: list[ir.Node]) -> Rotation:
    """A rotation with the layouts that bring its result back into the form of its input.

    Pairs are often turned as an axis of two, which may be split off before and merged after; those layouts
    are taken off `chain`.
    """
    for start in (_unsplit(walk, rotation.start), rotation.start):
        form = walk.partial.shape(start)
        out = rotation.output
        taken = 0
        while walk.partial.shape(out) != form and taken < min(len(chain), 4):
            taken += 1
            out = chain[-taken].outputs[0]
        if walk.partial.shape(out) == form:
            if taken:
                del chain[-taken:]
            return Rotation(rotation.node, start, out, rotation.fused)
    return rotation


def _unsplit(walk: Walk, start: ir.Value) -> ir.Value:
    """What a value is made of whose features stand as pairs, on two axes of which one has size two."""
    node = start.producer()
    if node is None or node.op_type != "Reshape" or not walk.moves(node) or node.inputs[0] is None:
        return start
    before, after = walk.partial.shape(node.inputs[0]), walk.partial.shape(start)
    if before is None or after is None or len(after) != len(before) + 1 or 2 not in after[-2:]:
        return start
    return node.inputs[0] if after[:-2] == before[:-1] else start


def _stages(
    walk: Walk, projection: Projection, chain: list[ir.Node], followed: Mapping[ir.Node, ir.Value]
) -> Iterator[tuple[ir.Value, Array]]:
    """Numbers of the projection's columns, moved as the layouts move them; ends where one cannot be followed."""
    shape = walk.partial.shape(projection.output)
    if shape is None:
        return
    array: Array = np.broadcast_to(np.arange(shape[-1], dtype=np.int32), shape)
    yield projection.output, array
    for i, node in enumerate(chain):
        follows = chain[i + 1] if i + 1 < len(chain) else None
        out = followed.get(node) or walk.next(node, follows)
        if node.op_type == "Concat":
            made = _joined(walk, node, array)
        else:
            made = None if node.inputs[0] is None else walk.apply(node, node.inputs[0], array, out)
        if made is None:
            return
        array = made
        yield out, array


def _joined(walk: Walk, node: ir.Node, new: Array) -> Array | None:
    """The new part's columns stand for the past's as well."""
    axis = int(attributes_of(node)["axis"])
    shape = walk.partial.shape(node.outputs[0])
    if shape is None:
        return None
    if shape[axis] < new.shape[axis] or new.shape[axis] == 0:
        return None
    first = np.take(new, [0], axis=axis)
    more = np.repeat(first, shape[axis] - new.shape[axis], axis=axis)
    return np.concatenate([more, new], axis=axis)
