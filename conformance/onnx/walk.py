"""Walking a graph: who makes a value, who reads it, and what a chain of layouts does to indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from conformance.onnx.layouts import LAYOUTS
from conformance.onnx.operators import Array
from conformance.onnx.partial import Partial, attributes_of, find_operator

if TYPE_CHECKING:
    import onnx_ir as ir

PLAIN = frozenset({"Cast", "Identity", "Dropout", "CastLike"})
"""Operators that hand on their first input."""
MOVING = frozenset(
    {"Transpose", "Reshape", "Unsqueeze", "Squeeze", "Expand", "Flatten", "Slice", "Split", "Gather", "Tile"}
)
"""Operators that only say where the numbers of their first input go."""


@dataclass
class Walk:
    """A graph with what is known of it at one setting."""

    graph: ir.Graph
    partial: Partial
    order: dict[ir.Node, int] = field(default_factory=dict)
    fixed: set[ir.Value] = field(default_factory=set)
    """Values that depend on no input of the graph: weights, and what is made of weights alone."""

    @staticmethod
    def of(graph: ir.Graph, partial: Partial) -> Walk:
        """A walk through a graph; nodes are in topological order, as ONNX has them."""
        walk = Walk(graph, partial)
        walk.fixed |= set(graph.initializers.values())
        for i, node in enumerate(graph):
            walk.order[node] = i
            if all(value is None or value in walk.fixed for value in node.inputs):
                walk.fixed |= set(node.outputs)
        return walk

    def unknown(self, value: ir.Value | None) -> bool:
        """Whether a value carries activations: it depends on an input, and its numbers are not known."""
        return value is not None and value not in self.fixed and self.partial.known(value) is None

    def carried(self, node: ir.Node) -> list[ir.Value]:
        """Inputs of a node that carry activations."""
        return [value for value in node.inputs if value is not None and self.unknown(value)]

    def readers(self, value: ir.Value) -> Iterator[tuple[ir.Node, int]]:
        """Nodes that read a value, each with the place at which it does."""
        for use in value.uses():
            yield use.node, use.idx

    def moves(self, node: ir.Node) -> bool:
        """Whether a node hands its first input on, or only moves its numbers."""
        if node.op_type in PLAIN:
            return True
        if node.op_type not in MOVING or node.domain not in ("", "ai.onnx"):
            return False
        return all(self.partial.known(v) is not None for v in node.inputs[1:] if v is not None)

    def behind(self, value: ir.Value) -> tuple[ir.Value, list[ir.Node]]:
        """The value before all layouts and casts, and those nodes, the last of them first."""
        nodes = []
        while (node := value.producer()) is not None and self.moves(node):
            first = node.inputs[0]
            if first is None:
                break
            nodes.append(node)
            value = first
        return value, nodes

    def applied(self, nodes: Sequence[ir.Node], start: ir.Value, array: Array) -> Array | None:
        """What a chain of layouts, in the order of the graph, makes of an array in place of `start`."""
        at = start
        for i, node in enumerate(nodes):
            follows = nodes[i + 1] if i + 1 < len(nodes) else None
            out = self.next(node, follows)
            made = self.apply(node, at, array, out)
            if made is None:
                return None
            array, at = made, out
        return array

    @staticmethod
    def next(node: ir.Node, follows: ir.Node | None) -> ir.Value:
        """Which output of a node its follower reads."""
        if follows is not None:
            for value in node.outputs:
                if value in follows.inputs:
                    return value
        return node.outputs[0]

    def apply(self, node: ir.Node, at: ir.Value, array: Array, out: ir.Value) -> Array | None:
        """One layout applied to an array in place of its input `at`; None where it cannot be."""
        if node.op_type in PLAIN:
            return array
        operator = LAYOUTS.get(node.op_type)
        if operator is None or node.domain not in ("", "ai.onnx"):
            return None
        inputs: list[Array | None] = []
        for value in node.inputs:
            known = None if value is None else self.partial.known(value)
            inputs.append(array if value is at else known)
            if value is not None and value is not at and known is None:
                return None
        attributes = attributes_of(node)
        if node.op_type == "Split":
            attributes["_outputs"] = len(node.outputs)
        try:
            made = operator(inputs, attributes)
        except (ValueError, IndexError, NotImplementedError, KeyError):
            return None
        return np.asarray(made[list(node.outputs).index(out)])

    def evaluated(self, target: ir.Value, start: ir.Value, array: Array, most: int = 200) -> Array | None:
        """The numbers of `target` when `start` is `array` and all else is as it is known.

        None where something between them is neither elementwise nor a layout, or is not known.
        """
        made: dict[ir.Value, Array] = {start: array}
        todo = sorted(self.between(start, target, most) or (), key=lambda node: self.order[node])
        with np.errstate(all="ignore"):
            for node in todo:
                inputs: list[Array | None] = []
                for value in node.inputs:
                    found = None if value is None else made.get(value)
                    if found is None and value is not None:
                        found = self.partial.known(value)
                        if found is None:
                            return None
                    inputs.append(found)
                operator = find_operator(node.domain if node.domain != "ai.onnx" else "", node.op_type)
                if operator is None:
                    return None
                attributes = attributes_of(node)
                if node.op_type == "Split":
                    attributes["_outputs"] = len(node.outputs)
                try:
                    results = operator(inputs, attributes)
                except (ValueError, IndexError, NotImplementedError, KeyError, TypeError):
                    return None
                for value, result in zip(node.outputs, results, strict=False):
                    made[value] = np.asarray(result)
        return made.get(target)

    def between(self, start: ir.Value, target: ir.Value, most: int = 200) -> set[ir.Node] | None:
        """Nodes on the way from `start` to `target`; None where another activation comes in."""
        nodes: set[ir.Node] = set()
        todo = [target]
        while todo:
            value = todo.pop()
            if value is start:
                continue
            node = value.producer()
            if node is None:
                return None
            if node in nodes:
                continue
            nodes.add(node)
            if len(nodes) > most:
                return None
            todo += self.carried(node)
        return nodes

    def source(self, value: ir.Value, allowed: frozenset[str], most: int = 60) -> ir.Value | None:
        """The one activation that `value` is computed from by `allowed` operators, where they part and meet again."""
        frontier = {value}
        for _ in range(most):
            latest = max(frontier, key=self._place)
            node = latest.producer()
            if node is None or node.op_type not in allowed:
                return None
            frontier.discard(latest)
            frontier |= set(self.carried(node))
            if len(frontier) == 1:
                return next(iter(frontier))
            if not frontier:
                return None
        return None

    def _place(self, value: ir.Value) -> int:
        node = value.producer()
        return -1 if node is None else self.order.get(node, -1)


@dataclass(frozen=True)
class Looks:
    """The same graph at several settings: with a past, with padding, and, where there is a cache, without past."""

    main: Walk
    padded: Walk | None
    prefill: Walk | None
    batch: int
    states: frozenset[ir.Value]
