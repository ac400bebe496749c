"""Products of two activations, MatMul or Einsum: which axis is summed over, which belongs to whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from conformance.onnx.operators import Array
from conformance.onnx.partial import attributes_of
from conformance.onnx.walk import Walk

if TYPE_CHECKING:
    import onnx_ir as ir

PRODUCTS = frozenset({"MatMul", "FusedMatMul", "Einsum"})


@dataclass(frozen=True)
class Operand:
    """How one operand of a product is laid out: its axes in the order lead, own, summed."""

    value: ir.Value
    axes: tuple[int | None, ...]
    """For each leading axis of the output (None: the operand has none), then its own, then the summed one."""
    rank: int

    @property
    def summed(self) -> int:
        """The axis that is summed over."""
        axis = self.axes[-1]
        assert axis is not None
        return axis

    def matrix(self, array: Array) -> Array:
        """An array of the operand's shape as [lead..., own, summed]."""
        order = [axis for axis in self.axes if axis is not None]
        moved = np.transpose(array, order)
        sizes = iter(moved.shape)
        return moved.reshape([1 if axis is None else next(sizes) for axis in self.axes])


@dataclass(frozen=True)
class Product:
    """One product of two activations. The output's axes are lead, own of the first, own of the second."""

    node: ir.Node
    operands: tuple[Operand, Operand]
    lead: tuple[int, ...]
    """Sizes of the leading axes of the output."""
    order: tuple[int, ...]
    """Where the output has lead, own of the first, own of the second."""
    factor: float

    @property
    def output(self) -> ir.Value:
        """What it gives."""
        return self.node.outputs[0]


def find_product(walk: Walk, node: ir.Node) -> Product | None:
    """A node as a product of two activations, None where it is none."""
    if node.op_type not in PRODUCTS or len(node.inputs) != 2 or len(walk.carried(node)) != 2:
        return None
    a, b = node.inputs
    shapes = walk.partial.shape(a), walk.partial.shape(b)
    out = walk.partial.shape(node.outputs[0])
    if a is None or b is None or shapes[0] is None or shapes[1] is None or out is None:
        return None
    if node.op_type == "Einsum":
        return _einsum(node, a, b, out)
    if min(len(shapes[0]), len(shapes[1])) < 2:
        return None
    attributes = attributes_of(node)
    rank = len(out)
    operands = []
    for i, (value, shape) in enumerate(zip((a, b), shapes, strict=True)):
        assert shape is not None
        own, summed = len(shape) - 2, len(shape) - 1
        if (i == 1) != bool(attributes.get("transB" if i else "transA")):
            own, summed = summed, own
        missing = rank - len(shape)
        lead = [None] * missing + list(range(len(shape) - 2))
        operands.append(Operand(value, (*lead, own, summed), len(shape)))
    return Product(
        node,
        (operands[0], operands[1]),
        out[:-2],
        tuple(range(rank)),
        float(attributes.get("alpha", 1.0)),
    )


def _einsum(node: ir.Node, a: ir.Value, b: ir.Value, out: tuple[int, ...]) -> Product | None:
    equation = str(attributes_of(node).get("equation", "")).replace(" ", "")
    sides, arrow, result = equation.partition("->")
    names = sides.split(",")
    if not arrow or len(names) != 2 or "." in equation:
        return None
    summed = [n for n in names[0] if n in names[1] and n not in result]
    own = [[n for n in side if n in result and n not in other] for side, other in (names, names[::-1])]
    lead = [n for n in result if n in names[0] and n in names[1]]
    if len(summed) != 1 or any(len(o) != 1 for o in own):
        return None
    operands = []
    for value, side, mine in zip((a, b), names, own, strict=True):
        axes = (
            *(side.index(n) if n in side else None for n in lead),
            side.index(mine[0]),
            side.index(summed[0]),
        )
        operands.append(Operand(value, axes, len(side)))
    order = (*(result.index(n) for n in lead), result.index(own[0][0]), result.index(own[1][0]))
    return Product(node, (operands[0], operands[1]), tuple(out[result.index(n)] for n in lead), order, 1.0)


@dataclass(frozen=True)
class Heads:
    """Leading axes of a product as batch and head. `batch_first` is which of the two varies slower."""

    count: int
    batch_first: bool


def split_heads(lead: tuple[int, ...], batch: int) -> list[Heads]:
    """How leading axes can be batch and head."""
    total = int(np.prod(lead)) if lead else 1
    if batch <= 0 or total % batch:
        return []
    return [Heads(total // batch, True), Heads(total // batch, False)]


def by_head(operand: Operand, array: Array, lead: tuple[int, ...], heads: Heads, batch: int) -> Array | None:
    """[head, own, summed] of an array that is the same for every sequence; None where it is not."""
    matrix = operand.matrix(array)
    full = np.broadcast_to(matrix, (*lead, *matrix.shape[-2:]))
    flat = full.reshape(-1, *matrix.shape[-2:])
    shape = (batch, heads.count) if heads.batch_first else (heads.count, batch)
    split = flat.reshape(*shape, *matrix.shape[-2:])
    if not heads.batch_first:
        split = split.swapaxes(0, 1)
    return split[0] if (split == split[:1]).all() else None
