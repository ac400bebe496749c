"""What `graph` claims ask of a graph's facts, one function each.

A check yields one result for each place that it looks at: right, wrong, or not read. Never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from conformance.judging.graph_attention import cache, heads, positions, projections, scale, softmax_axis
from conformance.judging.graph_findings import Finding, Result, Unknown
from conformance.judging.graph_layers import lengths, networks, random, residual, sublayers
from conformance.judging.graph_masks import fill, padding, visibility

if TYPE_CHECKING:
    from conformance.language.program import Choices
    from conformance.onnx.facts import GraphFacts

Check: TypeAlias = "Callable[[GraphFacts, Choices], Iterator[Result]]"
"""Of the facts, and of the variant that the model is held to be."""

__all__ = ["CHECKS", "Finding", "Unknown"]

CHECKS: Mapping[str, Check] = {
    "softmax-axis": softmax_axis,
    "scale": scale,
    "visibility": visibility,
    "padding": padding,
    "fill": fill,
    "residual": residual,
    "sublayers": sublayers,
    "networks": networks,
    "heads": heads,
    "lengths": lengths,
    "cache": cache,
    "projections": projections,
    "positions": positions,
    "random": random,
}
"""By the name that a claim gives."""
