"""Where a graph makes the document's tensors: which value, and how its axes lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from conformance.onnx.attention import Attention
from conformance.onnx.operators import Array
from conformance.onnx.projections import Traced
from conformance.onnx.structure import Layer, Structure
from conformance.onnx.weights import distinct_heads

if TYPE_CHECKING:
    import onnx_ir as ir


FARTHEST = 6
"""Operators between a flat tensor and one in which batch and query are two axes."""


@dataclass(frozen=True)
class Tap:
    """One tensor: `value`, its axes moved by `order`.

    `flat`: batch and query are one axis there, and this is the one that varies slower.
    """

    name: str
    value: ir.Value
    order: tuple[int, ...] | None = None
    flat: str = ""
    node: ir.Node | None = None
    """The node to name, where it is not the one that makes the value."""


def find_taps(structure: Structure) -> list[Tap]:
    """Every tensor of the document that the graph makes as such."""
    found: list[Tap] = []
    for i, layer in enumerate(structure.layers):
        found += [replace(tap, name=f"layers.{i}.{tap.name}") for tap in _layer(structure, layer)]
    head = structure.head
    if head is not None and head.norm is not None:
        found += _stream(structure, "final", head.norm.output)
    return found


def _layer(structure: Structure, layer: Layer) -> Iterator[Tap]:
    attended, fed = layer.attention, layer.feed_forward
    if attended is not None:
        yield from _stream(structure, "x", attended.reads or attended.source)
        if attended.norm is not None:
            yield from _stream(structure, "norm1", attended.norm.output)
        attention = attended.attention
        assert attention is not None
        yield from _attention(structure, attention)
        if attention.output is not None and not attended.node.op_type.startswith("Skip"):
            yield from _stream(structure, "attn_out", attended.branch.output)
        yield from _stream(
            structure, "u", attended.output if attended.after is None else attended.after.output
        )
    if fed is not None:
        if fed.norm is not None:
            yield from _stream(structure, "norm2", fed.norm.output)
        network = fed.feed_forward
        if network is not None:
            if network.halves is not None:
                for name, half in zip(("ffn_gate", "ffn_up"), network.halves, strict=True):
                    yield from _stream(structure, name, half.value)
            elif network.up is not None:
                yield from _stream(structure, "ffn_gate", network.first.output)
                yield from _stream(structure, "ffn_up", network.up.output)
            elif network.added is None:
                yield from _stream(structure, "ffn_pre", network.first.output)
            yield from _stream(structure, "ffn_hidden", network.hidden)
            if not fed.node.op_type.startswith("Skip"):
                yield from _stream(structure, "ffn_out", network.down.output)
        yield from _stream(structure, "y", fed.output if fed.after is None else fed.after.output)


def _stream(structure: Structure, name: str, value: ir.Value | None) -> Iterator[Tap]:
    """A tensor [batch, query, features]; nothing where the graph keeps it to itself."""
    if value is None:
        return
    shape = structure.walk.partial.shape(value)
    batch, tokens = structure.setting.batch, structure.setting.tokens
    if shape is None:
        return
    if len(shape) == 3 and shape[:2] == (batch, tokens):
        yield Tap(name, value)
    elif len(shape) == 3 and shape[:2] == (tokens, batch):
        yield Tap(name, value, (1, 0, 2))
    elif len(shape) == 2 and shape[0] == batch * tokens:
        slower = _slower(structure, value)
        if slower:
            yield Tap(name, value, flat=slower)


def _slower(structure: Structure, value: ir.Value) -> str:
    """Which of batch and query varies slower where they are one axis: as it is told apart next; '' if it is not."""
    walk = structure.walk
    batch, tokens = structure.setting.batch, structure.setting.tokens
    forms = {(batch, tokens): "batch", (tokens, batch): "query"}
    if batch == tokens:
        return ""
    after, before = [value], [value]
    for _ in range(FARTHEST):
        following = [node.outputs[0] for v in after for node, _ in walk.readers(v) if node.outputs]
        makers = [node for v in before if (node := v.producer()) is not None]
        preceding = [v for node in makers for v in walk.carried(node)[:1]]
        for near in (*following, *preceding):
            shape = walk.partial.shape(near)
            if shape is not None and len(shape) >= 3 and shape[:2] in forms:
                return forms[shape[0], shape[1]]
        after, before = (
            [v for v in values if len(walk.partial.shape(v) or ()) == 2] for values in (following, preceding)
        )
    return ""


def _attention(structure: Structure, attention: Attention) -> Iterator[Tap]:
    walk = structure.walk
    k_columns = None if attention.k_columns is None else distinct_heads(attention.k_columns)
    v_columns = None if attention.v_columns is None else distinct_heads(attention.v_columns)
    for short, traced, columns in (
        ("q", attention.q, attention.q_columns),
        ("k", attention.k, k_columns),
        ("v", attention.v, v_columns),
    ):
        if traced is not None and columns is not None:
            yield from _heads(structure, short, traced, columns)
    axes = attention.axes
    if axes is not None:
        for name, value in (
            ("scores", attention.scores),
            ("masked_scores", attention.masked),
            ("weights", attention.weights),
        ):
            if value is not None and len(walk.partial.shape(value) or ()) == 4:
                yield Tap(name, value, axes, node=attention.node if name == "weights" else None)
    shape = walk.partial.shape(attention.z)
    if (
        shape is not None
        and len(shape) == 4
        and attention.heads is not None
        and shape[:2]
        == (
            structure.setting.batch,
            attention.heads,
        )
    ):
        yield Tap("z", attention.z)
    rows = attention.o_rows
    if attention.output is not None and rows is not None and (rows == np.arange(len(rows))).all():
        yield from _stream(structure, "concat", attention.output.input)


def _heads(structure: Structure, short: str, traced: Traced, columns: Array) -> Iterator[Tap]:
    """The tensor split by head: before its norm, after it, after the rotation, and with the past."""
    rotation, norm, order_of = traced.rotation, traced.norm, structure.walk.order
    turned = False
    plain: Tap | None = None
    normed: Tap | None = None
    rotated: Tap | None = None
    joined: Tap | None = None
    for value, array in _in_order(traced):
        if rotation is not None and value is rotation.output:
            turned = True
        order = head_order(array, columns)
        if order is None or not _unscaled(traced, value):
            continue
        maker = value.producer()
        behind = norm is not None and maker is not None and order_of[maker] > order_of[norm.node]
        if norm is not None and value is structure.walk.behind(norm.input)[0] and not turned:
            normed = Tap(f"{short}_norm", norm.output, _same_axes(structure, norm.input, value, order))
        if traced.joined is not None and array.shape[order[2]] == structure.setting.total:
            joined = joined or Tap({"k": "keys", "v": "values"}[short], value, order)
        elif turned:
            rotated = rotated or Tap(f"{short}_rot", value, order)
        elif behind:
            normed = normed or Tap(f"{short}_norm", value, order)
        elif plain is None:
            plain = Tap(short, value, order)
    for tap in (plain, normed, rotated, joined):
        if tap is not None and tap.order is not None:
            yield tap
    last = rotated or normed or plain
    if short != "q" and traced.join is None and last is not None and (norm is None or last is not plain):
        yield Tap({"k": "keys", "v": "values"}[short], last.value, last.order)


def _same_axes(
    structure: Structure, value: ir.Value, other: ir.Value, order: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The order of `other` where `value` lies in the same way: casts alone between them."""
    shapes = structure.walk.partial.shape(value), structure.walk.partial.shape(other)
    return order if shapes[0] == shapes[1] else None


def _in_order(traced: Traced) -> Iterator[tuple[ir.Value, Array]]:
    """Stages with the rotation's result behind what it turns."""
    rotation = traced.rotation
    after = None if rotation is None else next((s for s in traced.stages if s[0] is rotation.output), None)
    for stage in traced.stages:
        if after is not None and stage is after:
            continue
        yield stage
        if after is not None and rotation is not None and stage[0] is rotation.start:
            yield after


def head_order(array: Array, columns: Array) -> tuple[int, ...] | None:
    """How axes have to move so that they are batch, head, position, feature; None where they are not those."""
    if array.ndim != 4:
        return None
    for order in permutations(range(4)):
        moved = np.transpose(array, order)
        fits = moved.shape[1] == columns.shape[0] and moved.shape[3] == columns.shape[1]
        if fits and (moved == columns[None, :, None, :]).all():
            return order
    return None


def _unscaled(traced: Traced, value: ir.Value) -> bool:
    """Whether no factor has been applied on the way from the projection."""
    scaled = set(traced.scaled_by)
    seen = {value}
    todo = [value]
    stop = None if traced.projection is None else traced.projection.node
    for _ in range(200):
        if not todo:
            break
        node = todo.pop().producer()
        if node is None or node is stop:
            continue
        if node in scaled:
            return False
        for other in node.inputs:
            if other is not None and other not in seen:
                seen.add(other)
                todo.append(other)
    return True
