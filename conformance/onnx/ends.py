"""Where the residual stream begins and ends: embedding, final norm, vocabulary projection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from conformance.onnx.feed_forward import find_matrices
from conformance.onnx.norms import LAYER_NORM, Norm
from conformance.onnx.partial import attributes_of
from conformance.onnx.projections import Projection, find_projection
from conformance.onnx.walk import Walk

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True)
class Head:
    """What makes the logits: the vocabulary projection and the norm before it."""

    projection: Projection | None
    tied: bool | None
    """True: it is the token table. None: a tensor of its own, which may hold the same numbers."""
    norm: Norm | None
    start: ir.Value | None
    """The stream after the last layer."""
    network: bool = False
    """Whether the stream goes through another network before the projection, as a masked language model's does."""


@dataclass(frozen=True)
class Embedding:
    """Where the stream begins: token table, position table or addition, scale."""

    tokens: ir.Value | None
    positions: ir.Value | None
    """A learned table."""
    added: ir.Value | None
    """Numbers that are added, and depend on no token: sinusoids, or a table that is multiplied."""
    scale: float | None
    value: ir.Value
    norm: Norm | None


def read_head(walk: Walk, logits: ir.Value, norms: Mapping[ir.Value, Norm], tables: set[ir.Value]) -> Head:
    """From the logits back to the stream."""
    value, _ = walk.behind(logits)
    projection = find_projection(walk, value)
    if projection is None:
        return Head(None, None, None, None)
    before, _ = walk.behind(projection.input)
    norm = norms.get(before)
    if norm is None:
        for node in _chain(walk, projection.input):
            norm = next((norms[o] for o in node.outputs if o in norms), norm)
    start = before if norm is None else norm.output if norm.skip is not None else norm.input
    same = walk_fixed(walk, projection.weight) in tables
    return Head(projection, True if same else None, norm, start)


def before_network(walk: Walk, head: Head, norms: Mapping[ir.Value, Norm]) -> Head:
    """The same where a matrix, an activation and maybe a norm stand between the stream and the projection."""
    if head.start is None:
        return head
    found = find_matrices(walk, walk.behind(head.start)[0])
    if len(found) != 1:
        return head
    start = walk.behind(found[0].input)[0]
    norm = norms.get(start)
    if norm is not None and norm.skip is None:
        return replace(head, norm=norm, start=norm.input, network=True)
    return replace(head, norm=None, start=start, network=True)


def _chain(walk: Walk, value: ir.Value) -> list[ir.Node]:
    return walk.behind(value)[1]


def walk_fixed(walk: Walk, weight: ir.Value) -> ir.Value:
    """An initializer behind layouts and casts."""
    while (node := weight.producer()) is not None and node.op_type in (
        "Transpose",
        "Cast",
        "Identity",
        "DequantizeLinear",
    ):
        first = node.inputs[0]
        if first is None:
            break
        weight = first
    return weight


def token_tables(walk: Walk, tokens: ir.Value | None) -> set[ir.Value]:
    """Weights that are gathered by the tokens."""
    found: set[ir.Value] = set()
    if tokens is None:
        return found
    todo, seen = [tokens], {tokens}
    while todo:
        value = todo.pop()
        for node, place in walk.readers(value):
            if node.op_type == "Gather" and place == 1 and node.inputs[0] is not None:
                if node.inputs[0] in walk.fixed:
                    found.add(walk_fixed(walk, node.inputs[0]))
            elif place == 0 and walk.moves(node) and node.outputs[0] not in seen:
                seen.add(node.outputs[0])
                todo.append(node.outputs[0])
    return found


def read_embedding(
    walk: Walk, value: ir.Value, norms: Mapping[ir.Value, Norm], tables: set[ir.Value]
) -> Embedding | None:
    """What the stream begins with."""
    whole = _operator(value)
    if whole is not None:
        return whole
    norm = norms.get(value)
    if norm is not None:
        value = walk.behind(norm.input)[0]
    begin = value
    tokens = positions = added = None
    scale: float | None = 1.0
    todo = [value]
    for _ in range(20):
        if not todo:
            break
        at = todo.pop()
        node = at.producer()
        if node is None:
            return None
        if node.op_type == "Gather" and node.inputs[0] is not None and node.inputs[0] in walk.fixed:
            table = walk_fixed(walk, node.inputs[0])
            if table in tables:
                tokens = table
            else:
                positions = _of_positions(walk, positions, table, at)
        elif walk.moves(node) and node.inputs[0] is not None:
            todo.append(node.inputs[0])
        elif node.op_type in ("Add", "Sum"):
            for other in node.inputs:
                if other is None:
                    continue
                gathered = _gathered(walk, other)
                if gathered is not None and gathered not in tables:
                    positions = _of_positions(walk, positions, gathered, other)
                elif walk.unknown(other):
                    todo.append(other)
                else:
                    added = other
        elif node.op_type in ("Mul", "Div"):
            numbers = [walk.partial.number(v) for v in node.inputs]
            known = [i for i, n in enumerate(numbers) if n is not None]
            if len(known) != 1:
                return None
            factor = numbers[known[0]]
            assert factor is not None
            scale = None if scale is None else scale * (factor if node.op_type == "Mul" else 1 / factor)
            rest = node.inputs[1 - known[0]]
            if rest is not None:
                todo.append(rest)
        else:
            return None
    if tokens is None:
        return None
    return Embedding(tokens, positions, added, scale, begin, norm)


def _of_positions(walk: Walk, before: ir.Value | None, table: ir.Value, value: ir.Value) -> ir.Value:
    """Which of two tables that are added is that of positions: the one of segments is the shorter by far.

    `value` is looked up in `table`. Of a table that is read at one row throughout it is not the one.
    """
    if before is None:
        return table
    rows = [(walk.partial.shape(one) or (0,))[0] for one in (before, table)]
    return before if _by_one_row(walk, value) or rows[1] < rows[0] else table


def _by_one_row(walk: Walk, value: ir.Value) -> bool:
    """Whether a value is gathered by one number throughout: a table of segments, not of positions."""
    nodes = [*walk.behind(value)[1]]
    maker = value.producer()
    nodes += [maker] if maker is not None and maker not in nodes else []
    for node in nodes:
        if node.op_type == "Gather" and len(node.inputs) > 1:
            rows = walk.partial.known(node.inputs[1])
            if rows is not None and rows.size > 1 and (rows == rows.reshape(-1)[0]).all():
                return True
    return False


def _operator(value: ir.Value) -> Embedding | None:
    """com.microsoft EmbedLayerNormalization: tables of tokens, positions and segments, and the norm of their sum."""
    node = value.producer()
    if node is None or node.op_type != "EmbedLayerNormalization" or len(node.inputs) < 7:
        return None
    _, _, tokens, positions, _, gain, bias = node.inputs[:7]
    if tokens is None:
        return None
    eps = float(attributes_of(node).get("epsilon", 1e-12))
    norm = Norm(LAYER_NORM, node, value, value, eps, gain, bias, -1)
    return Embedding(tokens, positions, None, 1.0, value, norm)


def _gathered(walk: Walk, value: ir.Value) -> ir.Value | None:
    """The table that a value is gathered, or cut, from."""
    before, nodes = walk.behind(value)
    table = walk_fixed(walk, before)
    if (
        table in walk.fixed
        and table.producer() is None
        and any(n.op_type in ("Gather", "Slice") for n in nodes)
    ):
        return table
    return None
