"""Rotary positions: what a graph turns features by, measured on unit vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from conformance.onnx.operators import Array
from conformance.onnx.partial import attributes_of
from conformance.onnx.projections import Rotation
from conformance.onnx.walk import Walk

if TYPE_CHECKING:
    import onnx_ir as ir

USUAL = (1e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 1e8)
"""Bases that models have; a measured one this near is one of them."""
NEAR = 2e-3
UNMOVED = 1e-6
"""What a feature may change by that is handed on as it is."""
SLOW = 1e-3
"""What a pair changes by at most behind which there may be slower ones, whose turning is not seen."""
NEAR_FLOAT16 = 2e-2
"""The same of tables in float16, where a base cannot be told any better."""


@dataclass(frozen=True)
class Rope:
    """How features are turned. What can't be told is None.

    `offset` is by how much the positions used differ from those that the tokens have, `turned` how many features
    of a head turn, the first of it.
    """

    layout: str | None
    theta: float | None
    offset: int | None
    note: str = ""
    turned: int | None = None

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "layout": self.layout,
            "theta": self.theta,
            "offset": self.offset,
            "note": self.note,
            "turned": self.turned,
        }


def measure(walk: Walk, rotation: Rotation, positions: Array) -> Rope:
    """The layout and base of a rotation, where the tokens stand at `positions` [T]."""
    if rotation.fused:
        made = _operator(walk, rotation.node, positions)
        return replace(made, turned=_told(walk, rotation.node))
    shape = walk.partial.shape(rotation.start)
    out_shape = walk.partial.shape(rotation.output)
    if shape is None or out_shape is None or shape[-1] % 2 or len(shape) < 3:
        return Rope(None, None, None, "not read")
    width = shape[-1]
    first = _probe(walk, rotation, shape, [0])
    if first is None or first.shape[-1] != width:
        return Rope(None, None, None, "not read")
    at = _by_position(first, len(positions), width)
    if at is None:
        return Rope(None, None, None, "not read")
    # The other feature that the first one reaches is its partner.
    partner = int(np.argmax(np.abs(np.where(np.arange(width) == 0, 0, at)).max(axis=0)))
    if np.abs(at[:, partner]).max() < 1e-6:
        return Rope(None, None, None, f"feature 0 is turned with feature {partner}")
    count = _turned(walk, rotation, shape, partner, len(positions))
    layout = None if count is None else {1: "interleaved", count // 2: "half"}.get(partner)
    if count is None or layout is None:
        return Rope(None, None, None, f"feature 0 is turned with feature {partner}")
    cosines, sines = _pair(layout, count)
    turned = _by_position_of(walk, rotation, shape, cosines, len(positions), width)
    back = _by_position_of(walk, rotation, shape, sines, len(positions), width)
    if turned is None or back is None:
        return Rope(layout, None, None, "not read")
    cos, sin = turned[:, cosines], turned[:, sines]
    if not (np.allclose(back[:, sines], cos, atol=1e-4) and np.allclose(back[:, cosines], -sin, atol=1e-4)):
        opposite = np.allclose(back[:, cosines], sin, atol=1e-4)
        return Rope(layout, None, None, "no rotation" + (": a sign is wrong" if opposite else ""))
    return replace(_base(layout, cos, sin, positions), turned=count)


def _turned(walk: Walk, rotation: Rotation, shape: tuple[int, ...], partner: int, length: int) -> int | None:
    """How many of a head's features turn, the first of it; None where it is not so."""
    width = shape[-1]
    if partner > 1:  # halves: feature 0 turns with the first of the second half
        count = 2 * partner
    else:
        ones = _by_position_of(walk, rotation, shape, list(range(width)), length, width)
        if ones is None:
            return None
        moved = np.flatnonzero(np.abs(ones - 1).max(axis=0) > UNMOVED)
        count = width if not moved.size else 2 * (int(moved[-1]) // 2 + 1)
        # Pairs that turn too slowly to be seen follow others that are nearly as slow.
        slowest = np.abs(ones[:, count - 2 : count] - 1).max()
        if slowest < SLOW:
            count = width
    if count == width:
        return count
    if count > width:
        return None
    rest = list(range(count, width))
    kept = _by_position_of(walk, rotation, shape, rest, length, width)
    if kept is None or not np.allclose(kept, np.arange(width) >= count, atol=UNMOVED):
        return None
    return count


def _pair(layout: str, width: int) -> tuple[list[int], list[int]]:
    half = width // 2
    if layout == "half":
        return list(range(half)), list(range(half, width))
    return list(range(0, width, 2)), list(range(1, width, 2))


def _probe(walk: Walk, rotation: Rotation, shape: tuple[int, ...], features: list[int]) -> Array | None:
    array = np.zeros(shape, np.float32)
    array[..., features] = 1
    return walk.evaluated(rotation.output, rotation.start, array)


def _by_position_of(
    walk: Walk, rotation: Rotation, shape: tuple[int, ...], features: list[int], length: int, width: int
) -> Array | None:
    array = _probe(walk, rotation, shape, features)
    return None if array is None else _by_position(array, length, width)


def _by_position(array: Array, length: int, width: int) -> Array | None:
    """[position, feature] of what is the same for every head, and of the last sequence."""
    axes = [i for i, size in enumerate(array.shape[:-1]) if size == length]
    if not axes:
        return None
    axis = axes[-1]
    moved = np.moveaxis(array, axis, -2)
    return np.asarray(moved.reshape(-1, length, width)[-1], np.float64)


def _base(layout: str, cos: Array, sin: Array, positions: Array) -> Rope:
    """The base from the angles [position, pair]; they are turned forwards by position."""
    if not np.allclose(cos**2 + sin**2, 1, atol=1e-3):
        return Rope(layout, None, None, "lengths change")
    angles = np.arctan2(sin, cos)
    pairs = angles.shape[1]
    if len(positions) < 2:
        return Rope(layout, None, None, "one position")
    steps = np.mod(np.diff(angles, axis=0) + np.pi, 2 * np.pi) - np.pi
    frequency = np.median(steps, axis=0)
    if (frequency < 0).all():
        return Rope(layout, None, None, "turned backwards")
    theta: float | None = None
    if pairs > 1 and (frequency > 0).all():
        exponents = 2 * np.arange(pairs) / (2 * pairs)
        good = (frequency > 1e-3) & (exponents > 0)
        good = good if good.any() else exponents > 0
        theta = float(np.median(frequency[good] ** (-1 / exponents[good])))
        coarse = _rounded(cos, sin)
        near = NEAR if not coarse else NEAR_FLOAT16
        theta = next((usual for usual in USUAL if abs(theta / usual - 1) < near), theta)
        expected = theta**-exponents
        # The slowest pairs are those that a scaling for long texts slows down (Llama 3.1): they are as precise as others.
        if not np.allclose(frequency, expected, atol=2e-4 if coarse else 1e-8, rtol=5e-3):
            return Rope(layout, None, None, "frequencies are not powers of one base")
    if abs(frequency[0] - 1) > 1e-3:
        return Rope(layout, None, None, "the first pair does not turn by one radian a position")
    return Rope(layout, theta, _offset(angles[:, 0], positions))


def _rounded(cos: Array, sin: Array) -> bool:
    """Whether tables hold numbers of float16."""
    return all(bool((table == table.astype(np.float16)).all()) for table in (cos, sin))


def _offset(first: Array, positions: Array) -> int | None:
    """The whole number that brings `positions` to the angles of the first pair."""
    for offset in sorted(range(-64, 65), key=abs):
        if np.allclose(np.sin((first - positions - offset) / 2), 0, atol=1e-3):
            return offset
    return None


def _operator(walk: Walk, node: ir.Node, positions: Array) -> Rope:
    """RotaryEmbedding of ai.onnx (x, cos, sin, positions) or com.microsoft (x, positions, cos, sin)."""
    if node.op_type == "GroupQueryAttention":
        return _inside(walk, node, positions)
    own = node.domain in ("", "ai.onnx")
    cos = walk.partial.known(node.inputs[1 if own else 2])
    sin = walk.partial.known(node.inputs[2 if own else 3])
    where = 3 if own else 1
    ids = walk.partial.known(node.inputs[where]) if len(node.inputs) > where else None
    layout = "interleaved" if attributes_of(node).get("interleaved") else "half"
    if cos is None or sin is None:
        return Rope(layout, None, None, "its tables are not read")
    cos, sin = np.asarray(cos, np.float64), np.asarray(sin, np.float64)
    if ids is not None:
        used = ids.reshape(-1)
        used = used[-len(positions) :] if used.size >= len(positions) else used[0] + np.arange(len(positions))
        if used.size and int(used.max()) >= len(cos):
            return Rope(layout, None, None, "its tables are shorter than the positions")
        return _base(layout, cos[used], sin[used], positions)
    if cos.ndim == 3 and cos.shape[1] == len(positions):
        return _base(layout, cos[-1], sin[-1], positions)
    return Rope(layout, None, None, "its positions are not read")


def _told(walk: Walk, node: ir.Node) -> int | None:
    """How many features an operator turns: as many as its tables have, twice."""
    own = node.domain in ("", "ai.onnx")
    place = 7 if node.op_type == "GroupQueryAttention" else 1 if own else 2
    table = walk.partial.shape(node.inputs[place]) if len(node.inputs) > place else None
    return 2 * table[-1] if table else None


def _inside(walk: Walk, node: ir.Node, positions: Array) -> Rope:
    """Of GroupQueryAttention, by tables that it is given; it counts positions itself unless it is given those too."""
    layout = "interleaved" if attributes_of(node).get("rotary_interleaved") else "half"
    tables = [node.inputs[i] if i < len(node.inputs) else None for i in (7, 8)]
    cos, sin = (
        None if walk.partial.known(t) is None else np.asarray(walk.partial.known(t), np.float64)
        for t in tables
    )
    given = node.inputs[9] if len(node.inputs) > 9 else None
    used = positions if given is None else walk.partial.known(given)
    if cos is None or sin is None or used is None:
        return Rope(layout, None, None, "its tables are not read")
    used = np.asarray(used).reshape(-1)[-len(positions) :]
    if used.size == 0 or int(used.max()) >= len(cos):
        return Rope(layout, None, None, "its tables are shorter than the positions")
    return _base(layout, cos[used], sin[used], positions)
