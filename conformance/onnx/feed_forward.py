"""Feed-forward networks: from the matrix that leaves one back to those that enter it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from conformance.onnx.operators import Array
from conformance.onnx.projections import Projection, find_projection
from conformance.onnx.walk import Walk

if TYPE_CHECKING:
    import onnx_ir as ir

FINGERPRINTS: Mapping[str, tuple[float, float, float]] = {
    # At -1, 1 and 2, where all of them differ.
    "relu": (0.0, 1.0, 2.0),
    "gelu": (-0.15865525, 0.84134475, 1.95449974),
    "gelu_tanh": (-0.15880801, 0.84119199, 1.95459769),
    "silu": (-0.26894142, 0.73105858, 1.76159416),
    "sigmoid": (0.26894142, 0.73105858, 0.88079708),
    "tanh": (-0.76159416, 0.76159416, 0.96402758),
    "quick_gelu": (-0.15420423, 0.84579577, 1.93565862),
    "none": (-1.0, 1.0, 2.0),
}
GATED: Mapping[str, str] = {"silu": "swiglu", "gelu": "geglu", "gelu_tanh": "geglu_tanh"}
"""What a gated network is called by the activation of its gate."""
BFLOAT16 = 8e-3
"""By how much values may be off that are computed with constants of bfloat16."""
POINTS = (-1.0, 1.0, 2.0)
LONGEST = 30
BIASED: Mapping[str, str] = {"BiasGelu": "gelu", "FastGelu": "gelu_tanh"}
"""Operators that add a bias before they apply their function."""


@dataclass(frozen=True)
class Half:
    """Columns of a matrix that has those of gate and up: which they are, and the value that holds them alone."""

    value: ir.Value
    columns: Array


@dataclass(frozen=True)
class FeedForward:
    """One feed-forward network. `kind` is one of the document's, another activation or unknown."""

    kind: str
    input: ir.Value
    first: Projection
    """The matrix whose result goes through the activation: w_1, or the gate."""
    up: Projection | None
    down: Projection
    hidden: ir.Value
    """What goes into the last matrix."""
    added: ir.Value | None = None
    """A bias of the first matrix that the operator of the activation adds."""
    halves: tuple[Half, Half] | None = None
    """Gate and up where they are columns of one matrix, which then is both `first` and `up`."""

    @property
    def bias(self) -> ir.Value | None:
        """The bias of the first matrix, wherever it is added."""
        return self.first.bias if self.added is None else self.added


def read_feed_forward(walk: Walk, down: Projection) -> FeedForward | None:
    """The network whose last matrix is `down`; None where no matrix is found before it."""
    hidden, _ = walk.behind(down.input)
    found = find_matrices(walk, hidden)
    if not found:
        return None
    if len(found) == 1:
        first = found[0]
        kind = activation(walk, first.output, hidden)
        if kind is None:
            added, kind = _biased(walk, first, hidden)
            if kind is not None:
                return FeedForward(kind, first.input, first, None, down, hidden, added)
            packed = _packed(walk, first, hidden, down)
            if packed is not None:
                return packed
        return FeedForward(kind or "unknown", first.input, first, None, down, hidden)
    if len(found) != 2:
        return None
    return _gated(walk, found, hidden, down)


def _biased(walk: Walk, first: Projection, hidden: ir.Value) -> tuple[ir.Value | None, str | None]:
    """(bias, activation) where one operator adds the one and applies the other."""
    node = hidden.producer()
    if node is None or node.op_type not in BIASED or len(node.inputs) != 2 or first.bias is not None:
        return None, None
    x, bias = node.inputs
    if bias is None or bias not in walk.fixed or x is None or walk.behind(x)[0] is not first.output:
        return None, None
    return bias, BIASED[node.op_type]


def find_matrices(walk: Walk, value: ir.Value) -> list[Projection]:
    """Products with weights behind a value, elementwise operators and layouts aside."""
    found: dict[ir.Node, Projection] = {}
    todo, seen = [value], {value}
    for _ in range(LONGEST):
        if not todo:
            break
        at = todo.pop()
        projection = find_projection(walk, at)
        if projection is not None:
            found[projection.node] = projection
            continue
        node = at.producer()
        if node is None:
            return []
        for other in walk.carried(node):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    if todo:
        return []
    return sorted(found.values(), key=lambda p: walk.order[p.node])


def _gated(walk: Walk, matrices: list[Projection], hidden: ir.Value, down: Projection) -> FeedForward:
    """activation(gate) · up: `hidden` is linear in one of the two, and it is the other that is the gate."""
    unknown = FeedForward("unknown", matrices[0].input, matrices[0], matrices[1], down, hidden)
    node = hidden.producer()
    if node is None or node.op_type != "Mul" or len(node.inputs) != 2:
        return unknown
    sides = []
    for value in node.inputs:
        if value is None:
            return unknown
        behind = find_matrices(walk, value)
        if len(behind) != 1:
            return unknown
        sides.append((behind[0], activation(walk, behind[0].output, value)))
    plain = [i for i, (_, kind) in enumerate(sides) if kind == "none"]
    if len(plain) != 1:
        return unknown
    up, (gate, kind) = sides[plain[0]][0], sides[1 - plain[0]]
    named = GATED.get(kind or "", f"gated {kind or 'unknown'}")
    return FeedForward(named, gate.input, gate, up, down, hidden)


def _packed(walk: Walk, both: Projection, hidden: ir.Value, down: Projection) -> FeedForward | None:
    """activation(gate) · up where one matrix makes both; None where it is not that."""
    node = hidden.producer()
    if node is None or node.op_type != "Mul" or len(node.inputs) != 2:
        return None
    sides = []
    for value in node.inputs:
        half = None if value is None else _half(walk, both.output, value)
        if half is None or value is None:
            return None
        sides.append((half, activation(walk, half.value, value)))
    plain = [i for i, (_, kind) in enumerate(sides) if kind == "none"]
    if len(plain) != 1:
        return None
    up, (gate, kind) = sides[plain[0]][0], sides[1 - plain[0]]
    named = GATED.get(kind or "", f"gated {kind or 'unknown'}")
    return FeedForward(named, both.input, both, both, down, hidden, halves=(gate, up))


def _half(walk: Walk, both: ir.Value, side: ir.Value) -> Half | None:
    """The last value on the way to one factor that only holds columns of `both`, and which."""
    shape = walk.partial.shape(both)
    passed = walk.between(both, side)
    if shape is None or passed is None:
        return None
    numbered = np.broadcast_to(np.arange(shape[-1]), shape)
    for node in sorted(passed, key=lambda node: -walk.order[node]):
        if not walk.moves(node):
            continue
        for value in node.outputs:
            made = walk.evaluated(value, both, numbered) if walk.partial.shape(value) else None
            if made is None or made.ndim != len(shape) or made.shape[:-1] != shape[:-1]:
                continue
            columns = made.reshape(-1, made.shape[-1])
            if 2 * columns.shape[1] != shape[-1] or not (columns == columns[0]).all():
                continue
            if value is side or walk.between(value, side) is not None:
                return Half(value, columns[0])
    return None


def activation(walk: Walk, start: ir.Value, end: ir.Value) -> str | None:
    """The name of the function from `start` to `end`, by its values at three points; None where it has none."""
    if start is end:
        return "none"
    shape = walk.partial.shape(start)
    if shape is None:
        return None
    values = []
    for point in POINTS:
        array = walk.evaluated(end, start, np.full(shape, point, np.float32))
        if array is None or array.size == 0 or not (array == array.reshape(-1)[0]).all():
            return None
        values.append(float(array.reshape(-1)[0]))
    for name, expected in FINGERPRINTS.items():
        if np.allclose(values, expected, rtol=0, atol=3e-5):
            return name
    return _coarse(walk, start, end, values)


def _coarse(walk: Walk, start: ir.Value, end: ir.Value, values: list[float]) -> str | None:
    """The name where constants are of bfloat16: those that are near, told apart by their operators."""
    if start.dtype is None or start.dtype.name != "BFLOAT16":
        return None
    near = [n for n, want in FINGERPRINTS.items() if np.allclose(values, want, rtol=0, atol=BFLOAT16)]
    if len(near) < 2 or not set(near) <= {"gelu", "gelu_tanh"}:
        return near[0] if len(near) == 1 else None
    used = {node.op_type for node in walk.between(start, end) or ()}
    told = [name for name, operator in (("gelu", "Erf"), ("gelu_tanh", "Tanh")) if operator in used]
    return told[0] if len(told) == 1 else None
