"""The residual stream, from the logits back to the embedding: which sum follows which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformance.onnx.attention import Attention
from conformance.onnx.feed_forward import FeedForward, read_feed_forward
from conformance.onnx.norms import Norm
from conformance.onnx.projections import Projection, find_projection
from conformance.onnx.walk import Walk

if TYPE_CHECKING:
    import onnx_ir as ir


LONGEST = 2000


@dataclass(frozen=True)
class Block:
    """One sum `stream + branch`.

    Attributes:
        node: the sum.
        output: what it gives; of post-norm, before the norm. None where a fused operator keeps it.
        source: what is added to the branch.
        branch: the branch's last matrix.
        attention: the attention in the branch, None when it is a feed-forward network.
        feed_forward: the network in the branch.
        norm: the norm between the stream and the branch, None where the branch reads the stream.
        reads: what the branch reads, before its norm.
        after: the norm of the sum (post-norm).
    """

    node: ir.Node
    output: ir.Value | None
    source: ir.Value
    branch: Projection
    attention: Attention | None
    feed_forward: FeedForward | None
    norm: Norm | None
    reads: ir.Value | None
    after: Norm | None
    summed: bool = True
    """False: the branch stands in place of the stream, without a sum."""
    weighted: bool = False
    """The stream is multiplied by weights before the sum, one for each feature."""

    @property
    def kind(self) -> str:
        """attention, feed_forward or unknown."""
        return "attention" if self.attention else "feed_forward" if self.feed_forward else "unknown"

    @property
    def source_is(self) -> str:
        """What the residual comes from: `stream` is right."""
        if not self.summed:
            return "missing"
        if self.reads is None:
            return "unknown"
        if self.source is self.reads:
            return "weighted" if self.weighted else "stream"
        if self.norm is not None and self.source is self.norm.output:
            return "normed"
        return "another"


def read_stream(
    walk: Walk,
    start: ir.Value,
    norms: Mapping[ir.Value, Norm],
    attentions: Sequence[Attention],
    final: Norm | None,
) -> tuple[list[Block], ir.Value]:
    """Every sum from the last layer back, in the order of the graph, and where the stream begins."""
    by_output = {a.output.node: a for a in attentions if a.output is not None}
    blocks: list[Block] = []
    value = start
    for _ in range(LONGEST):
        value, _ = walk.behind(value)
        after = None
        norm = norms.get(value)
        if norm is not None and norm.skip is None:
            inner = _sum(walk, walk.behind(norm.input)[0])
            if inner is None:
                break
            after, value = norm, walk.behind(norm.input)[0]
        elif norm is not None and norm is not final:
            after = norm
        block = _block(walk, value, norms, by_output, after) or _alone(walk, value, norms, by_output, after)
        if block is None:
            if after is not None:
                value = after.output
            break
        blocks.append(block)
        skips = block.source_is == "another" and block.reads is not None
        value = block.reads if skips and block.reads is not None else block.source
    return blocks[::-1], value


def _sum(walk: Walk, value: ir.Value) -> tuple[ir.Node, ir.Value, ir.Value, Projection] | None:
    """(node, stream, branch, the branch's last matrix) of a residual sum."""
    node = value.producer()
    if node is None:
        return None
    pair: list[ir.Value] = []
    if node.op_type in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"):
        pair = [v for v in node.inputs[:2] if v is not None]
    elif node.op_type in ("Add", "Sum") and len(node.inputs) == 2:
        pair = [v for v in node.inputs if v is not None]
    if len(pair) != 2 or not all(walk.unknown(v) for v in pair):
        return None
    ends = [find_projection(walk, walk.behind(v)[0]) for v in pair]
    if ends[0] is None and ends[1] is None:
        return None
    if ends[0] is not None and ends[1] is not None:
        # Two branches: the later one's stream is the other, if it was made from that.
        i = max((0, 1), key=lambda k: walk.order[ends[k].node] if ends[k] is not None else -1)  # type: ignore[union-attr]
        if not _made_from(walk, pair[i], pair[1 - i]):
            return None
    else:
        i = 0 if ends[0] is not None else 1
    projection = ends[i]
    assert projection is not None
    return node, pair[1 - i], pair[i], projection


def _made_from(walk: Walk, value: ir.Value, other: ir.Value) -> bool:
    """Whether `other` goes into `value`."""
    floor = walk.order.get(other.producer(), -1) if other.producer() is not None else -1  # type: ignore[arg-type]
    todo, seen = [value], {value}
    while todo:
        node = todo.pop().producer()
        if node is None or walk.order[node] < floor:
            continue
        for inner in walk.carried(node):
            if inner is other:
                return True
            if inner not in seen:
                seen.add(inner)
                todo.append(inner)
    return False


def _ended_by(
    walk: Walk, projection: Projection, by_output: Mapping[ir.Node, Attention]
) -> tuple[Attention | None, FeedForward | None, ir.Value | None]:
    """The attention or the network that a projection ends, and what that reads."""
    attention = by_output.get(projection.node)
    if attention is None:
        network = read_feed_forward(walk, projection)
        return None, network, None if network is None else network.input
    read = attention.q.projection if attention.q is not None else None
    return attention, None, None if read is None else read.input


def _block(
    walk: Walk,
    value: ir.Value,
    norms: Mapping[ir.Value, Norm],
    by_output: Mapping[ir.Node, Attention],
    after: Norm | None,
) -> Block | None:
    found = _sum(walk, value)
    if found is None:
        return None
    node, stream, _branch, projection = found
    stream, weighted = _without_weights(walk, walk.behind(stream)[0])
    attention, network, entry = _ended_by(walk, projection, by_output)
    norm, reads = None, None
    if entry is not None:
        entry, norm, reads = _entered(walk, entry, norms, stream)
        if norm is not None and entry is stream:  # post-norm: the branch reads the normed stream itself
            norm, reads = None, entry
    fused = norms.get(value)
    output = fused.total if fused is not None and fused.skip is not None else value
    return Block(node, output, stream, projection, attention, network, norm, reads, after, weighted=weighted)


def _without_weights(walk: Walk, value: ir.Value) -> tuple[ir.Value, bool]:
    """A stream before weights that it is multiplied by (Doge), if that is no norm's gain; whether there are any."""
    node = value.producer()
    if node is None or node.op_type != "Mul" or len(node.inputs) != 2:
        return value, False
    for weight, other in (node.inputs, reversed(node.inputs)):
        if weight is None or other is None or weight not in walk.fixed:
            continue
        before = walk.behind(other)[0]
        shape = walk.partial.shape(weight)
        maker = before.producer()
        is_sum = maker is not None and maker.op_type in ("Add", "Sum", "Gather")
        if is_sum and shape and shape[-1] > 1:
            return before, True
    return value, False


def _entered(
    walk: Walk, entry: ir.Value, norms: Mapping[ir.Value, Norm], stream: ir.Value
) -> tuple[ir.Value, Norm | None, ir.Value]:
    """(what a branch's first matrix takes, the norm before it, what the branch reads before that).

    Queries may come of two matrices, a narrow one first and a norm between them.
    """
    width = walk.partial.shape(stream)
    while True:
        entry, _ = walk.behind(entry)
        norm = norms.get(entry)
        reads = entry if norm is None else (norm.total or walk.behind(norm.input)[0])
        read = walk.partial.shape(reads)
        narrow = width is not None and read is not None and read[-1:] != width[-1:]
        before = find_projection(walk, reads) if narrow else None
        if before is None:
            return entry, norm, reads
        entry = before.input


def _alone(
    walk: Walk,
    value: ir.Value,
    norms: Mapping[ir.Value, Norm],
    by_output: Mapping[ir.Node, Attention],
    after: Norm | None,
) -> Block | None:
    """A branch that replaces the stream instead of being added to it."""
    projection = find_projection(walk, value)
    if projection is None:
        return None
    attention, network, entry = _ended_by(walk, projection, by_output)
    if entry is None:
        return None
    entry, _ = walk.behind(entry)
    norm = norms.get(entry)
    reads = entry if norm is None else (norm.total or walk.behind(norm.input)[0])
    return Block(
        projection.node, value, reads, projection, attention, network, norm, reads, after, summed=False
    )
