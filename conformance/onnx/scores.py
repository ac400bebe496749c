"""Between the two products of an attention: where the softmax stands, what it runs over, what scales it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from conformance.onnx.operators import Array
from conformance.onnx.partial import attributes_of
from conformance.onnx.products import PRODUCTS, Operand, Product, find_product
from conformance.onnx.projections import Traced
from conformance.onnx.walk import PLAIN, Walk

if TYPE_CHECKING:
    import onnx_ir as ir

ELEMENTWISE = frozenset({"Mul", "Div", "Add", "Sub", "Where", "Tanh", "Max", "Min", "Clip", *PLAIN})
MOVES = frozenset({"Transpose", "Reshape", "Unsqueeze", "Squeeze", "Expand", "Flatten"})
FARTHEST = 14
"""Steps between a product and its softmax."""


def find_second(walk: Walk, start: ir.Value) -> tuple[Product, ir.Value, list[ir.Node]] | None:
    """(product, the value that it reads, nodes between) of the product that the weights go into."""
    ways: list[tuple[ir.Value, list[ir.Node]]] = [(start, [])]
    seen = {start}
    while ways:
        value, way = ways.pop(0)
        for node, _ in walk.readers(value):
            product = find_product(walk, node)
            if product is not None:
                return product, value, way
            if len(way) >= FARTHEST or not node.outputs:
                continue
            if node.op_type in ELEMENTWISE | MOVES | {"IsNaN"} and node.outputs[0] not in seen:
                if node.op_type == "IsNaN" or (node.op_type == "Where" and value is node.inputs[0]):
                    continue
                seen.add(node.outputs[0])
                ways.append((node.outputs[0], [*way, node]))
    return None


def find_first(walk: Walk, value: ir.Value) -> Product | None:
    """The product of activations that a softmax's input is made of."""
    for _ in range(FARTHEST):
        node = value.producer()
        if node is None:
            return None
        if node.op_type in PRODUCTS:
            return find_product(walk, node)
        if node.op_type not in ELEMENTWISE | MOVES:
            return None
        carried = [v for v in walk.carried(node) if not _is_mask(walk, v)] or walk.carried(node)
        if len(carried) == 1:
            value = carried[0]
            continue
        leading = [v for v in carried if _leads(walk, v)]
        if len(leading) != 1:
            return None
        value = leading[0]
    return None


def _is_mask(walk: Walk, value: ir.Value) -> bool:
    seen = walk.partial.of(value)
    return seen is not None and seen.array.dtype == np.bool_


def _leads(walk: Walk, value: ir.Value) -> bool:
    """Whether a product of activations lies behind a value, elementwise operators aside."""
    for _ in range(FARTHEST):
        node = value.producer()
        if node is None:
            return False
        if node.op_type in PRODUCTS:
            return len(walk.carried(node)) == 2
        if node.op_type not in ELEMENTWISE | MOVES:
            return False
        carried = walk.carried(node)
        if len(carried) != 1:
            return False
        value = carried[0]
    return False


def path_between(walk: Walk, start: ir.Value, end: ir.Value) -> list[ir.Node] | None:
    """Nodes from the product to the softmax, in order; None where another activation comes in."""
    nodes = walk.between(start, end, 40)
    return None if nodes is None else sorted(nodes, key=lambda node: walk.order[node])


def sides_of(product: Product, weights: ir.Value) -> tuple[int, Operand]:
    """(which operand the weights are, the values' operand)."""
    left = 0 if product.operands[0].value is weights else 1
    return left, product.operands[1 - left]


def summed_axis(
    walk: Walk, start: ir.Value, shape: tuple[int, ...], way: Sequence[ir.Node], product: Product, side: int
) -> int | None:
    """The axis of the softmax's output that the second product sums over."""
    summed = product.operands[side].summed
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        index = np.arange(size).reshape([-1 if i == axis else 1 for i in range(len(shape))])
        array = _moved(walk, way, start, np.broadcast_to(index, shape))
        if array is None:
            return None
        if array.shape[summed] == size and (np.moveaxis(array, summed, -1) == np.arange(size)).all():
            return axis
    return None


def masks(walk: Walk, node: ir.Node) -> bool:
    """Whether a node multiplies by numbers that are 0 and 1."""
    if node.op_type != "Mul":
        return False
    known = [array for v in node.inputs if v is not None and (array := walk.partial.known(v)) is not None]
    return any(array.size > 1 and set(np.unique(array).tolist()) == {0, 1} for array in known)


def _moved(walk: Walk, way: Sequence[ir.Node], start: ir.Value, array: Array) -> Array | None:
    """What the layouts on a way make of an array; elementwise operators leave it."""
    at = start
    for node in way:
        if node.op_type in MOVES and walk.moves(node):
            if node.inputs[0] is not at:
                return None
            made = walk.apply(node, at, array, node.outputs[0])
            if made is None:
                return None
            array = made
        at = node.outputs[0]
    return array


def query_first(
    walk: Walk, product: Product, path: list[ir.Node] | None, shape: tuple[int, ...], key: int | None
) -> bool:
    """Whether the first operand of the first product is the queries: its own axis is not the key's."""
    if path is None or key is None:
        return True
    own = product.order[-2]
    size = walk.partial.shape(product.output)
    if size is None or key >= len(shape) or size[own] == 1:
        return True
    index = np.arange(size[own]).reshape([-1 if i == own else 1 for i in range(len(size))])
    array = _moved(
        walk, [n for n in path if n.op_type in MOVES], product.output, np.broadcast_to(index, size)
    )
    if array is None or array.ndim != len(shape):
        return True
    moved = np.moveaxis(array, key, -1)
    return bool((moved == moved[..., :1]).all())


def axis_name(
    softmax: ir.Node, shape: tuple[int, ...], key: int | None, axes: tuple[int, ...] | None
) -> str | None:
    """What the softmax runs over. None where it can't be told."""
    if key is None:
        return None
    axis = int(attributes_of(softmax).get("axis", -1)) % len(shape)
    if axis == key:
        return "key"
    if axes is not None:
        return ("batch", "head", "query", "key")[axes.index(axis)] if axis in axes else "other"
    return "other"


def scale_of(
    walk: Walk, first: Product, path: list[ir.Node] | None, source: ir.Value, q: Traced, k: Traced
) -> tuple[float | None, str]:
    """The whole factor between q·k and the softmax, and where it is applied."""
    shape = walk.partial.shape(first.output)
    if path is None or shape is None or q.factor is None or k.factor is None:
        return None, "unknown"
    zero, one, two = (
        walk.evaluated(source, first.output, np.full(shape, value, np.float32)) for value in (0.0, 1.0, 2.0)
    )
    if zero is None or one is None or two is None:
        return None, "unknown"
    with np.errstate(all="ignore"):
        moved = np.isfinite(zero) & (one != zero)  # where a mask does not stand in place of the score
        moved &= np.abs(zero) < 1e3  # nor drowns it
        step, twice = (one - zero)[moved], (two - zero)[moved]
    if step.size == 0:
        return None, "unknown"
    after = float(np.median(step))
    if not np.allclose(step, after, rtol=1e-3) or not np.allclose(twice, 2 * after, rtol=1e-3):
        return None, "not a plain factor"
    places = [("on q", q.scaled_by), ("on k", k.scaled_by)]
    used = [name for name, nodes in places if nodes]
    if first.factor != 1:
        used.append("in the product")
    if after != 1 or any(node.op_type in ("Mul", "Div") for node in path):
        used.append("after the product")
    return q.factor * k.factor * first.factor * after, " and ".join(used) or "none in the graph"


def factors_of(walk: Walk, path: list[ir.Node] | None) -> tuple[ir.Node, ...]:
    """The nodes on a path that multiply or divide by one number."""
    return tuple(
        node
        for node in path or ()
        if node.op_type in ("Mul", "Div")
        and any(walk.partial.number(value) is not None for value in node.inputs if value is not None)
    )


def scores_of(walk: Walk, value: ir.Value, path: list[ir.Node] | None) -> ir.Value | None:
    """The scores after their scale and before their mask."""
    if path is None:
        return None
    for i, node in enumerate(path):
        scaling = node.op_type in ("Mul", "Div") and any(
            walk.partial.number(other) is not None for other in node.inputs if other is not value
        )
        if value in node.inputs and (scaling or (node.op_type in MOVES | PLAIN and walk.moves(node))):
            value = node.outputs[0]
            continue
        if any(n.op_type in ("Mul", "Div") for n in path[i:]):
            return None  # part of the scale comes after the mask
        break
    return value
