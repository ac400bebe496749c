"""A scale that is in no node of a graph, because the weights of the queries hold it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from conformance.language.arithmetic import Array
from conformance.onnx.facts import AttentionFacts, GraphFacts

NEAR_ONE = 1e-4
ALIKE = 1.3
"""By what factor the ratio of query to key weights may miss 1/√Dh. Drawn or initialised weights miss it by √2 or more."""
NARROWEST = 4
"""Heads of fewer features have a 1/√Dh that is too near 1 to be seen in weights."""
QUERIES = ("q", "q_rot", "q_norm")


def without_factor(facts: GraphFacts) -> Iterator[tuple[int, AttentionFacts, int]]:
    """The attentions that no node scales, with their number and the width of their heads."""
    for i, attention in enumerate(facts.attentions):
        width, scale = attention.d_head, attention.scale
        if width is not None and scale is not None and abs(scale - 1) <= NEAR_ONE:
            yield i, attention, width


def looks_folded(facts: GraphFacts, parameters: Mapping[str, Array]) -> bool:
    """Whether all attentions without a factor have query weights that are smaller than their key weights by 1/√Dh.

    A lone file cannot prove it either way. Weights that are drawn alike do not differ so by chance, and a
    right file that is called wrong would cost more than a wrong one that is not.
    """
    found = list(without_factor(facts))
    for i, _, width in found:
        queries, keys = (parameters.get(f"layers.{i}.attention.w_{name}") for name in "qk")
        if queries is None or keys is None or width < NARROWEST:
            return False
        ratio = _magnitude(queries) / max(_magnitude(keys), np.finfo(np.float64).tiny) * width**0.5
        if not 1 / ALIKE <= ratio <= ALIKE:
            return False
    return bool(found)


def _magnitude(array: Array) -> float:
    return float(np.sqrt(np.mean(np.square(array, dtype=np.float64))))


def unfolded(facts: GraphFacts, recipe: dict[str, Any], *, declared: bool) -> GraphFacts:
    """A graph whose queries hold 1/√Dh, as the document has it: the factor is one of their weights.

    Its queries are then no longer the document's, and are not shown; its scores are. Its scale is what the
    document asks for where that was `declared`, and unknown where only the weights look like it.
    """
    attentions = list(facts.attentions)
    for i, attention, width in without_factor(facts):
        scale = width**-0.5 if declared else None
        attentions[i] = msgspec.structs.replace(attention, scale=scale, in_weights=True)
        for name in (f"layers.{i}.attention.w_q", f"layers.{i}.attention.b_q"):
            for entry in recipe["parameters"].get(name, ()):
                entry["factor"] = width**-0.5
    recipe["taps"] = {n: t for n, t in recipe["taps"].items() if n.rpartition(".")[2] not in QUERIES}
    return msgspec.structs.replace(facts, attentions=attentions)
