"""The first stage that is wrong on the target's own tensors before it, and the node of a graph that it stands at."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from conformance.diagnosis.discovery import SURE, Finding
from conformance.judging.common import Question
from conformance.judging.compare import compare
from conformance.language.arithmetic import Array
from conformance.language.tensors import Named
from conformance.results.records import Place

VANISHES = 104.0
"""exp of minus this is less than the smallest number of float32, so of any narrower dtype."""


@dataclass(frozen=True)
class WrongStage:
    """A tensor that the target shows, and that its stage does not make of those before it."""

    step: int
    tap: str
    got: Array
    last_right: str
    """The tensor before it that was right; empty where there is none."""


def first_wrong(question: Question) -> WrongStage | None:
    """The first tensor, in the order of the program, that its stage does not make.

    None where all are right, or the target shows no inner tensors.
    """
    bench, scenario, dtype = question.bench, question.scenario, question.dtype
    seen = bench.observe(scenario, dtype)
    if seen.failed is not None or not any(step.taps for step in seen.steps):
        return None
    last_right = ""
    local = bench.local(scenario, dtype)
    for i, step in enumerate(seen.steps):
        for tap, want in local[i].items():
            got = step.taps.get(tap)
            if got is None or set(got.axes) != set(want.axes):
                continue
            order = [want.axes.index(axis) for axis in got.axes]
            allowed = bench.nearly_allowed(scenario, dtype, i, tap).transpose(order)
            counts = shown(got, want.array.transpose(order), question.counted(i, got))
            if not compare(tap, got, want.array.transpose(order), allowed, counts).agrees:
                return WrongStage(i, tap, got.array, last_right)
            last_right = tap
    return None


def first_wrong_stage(question: Question) -> Finding | None:
    """The node that makes the first wrong tensor of a graph; None where all are right, and for what is no graph."""
    graph = question.bench.graph
    wrong = None if graph is None else first_wrong(question)
    if graph is None or wrong is None:
        return None
    return found_at(graph.taps.get(wrong.tap), wrong.tap, graph.taps.get(wrong.last_right), wrong.last_right)


def shown(got: Named[Array], want: Array, counts: Array | None) -> Array | None:
    """Where a stage is compared: not where the program has -inf and the graph something of no weight.

    A mask's fill is a finite number in most graphs; what it hides has to vanish beside its row's largest.
    """
    hidden = np.isneginf(want)
    if not hidden.any():
        return counts
    largest = np.max(want, axis=-1, keepdims=True, initial=-np.inf)
    with np.errstate(all="ignore"):
        vanishes = hidden & (np.asarray(got.array, np.float64) <= largest - VANISHES)
    vanishes = vanishes | (hidden & np.isneginf(largest))
    return np.asarray(~vanishes if counts is None else ~vanishes & counts)


def found_at(node: Place | None, tap: str, last: Place | None = None, last_right: str = "") -> Finding:
    """A tensor of a graph that is wrong, at the node that makes it; `last` made the last right one."""
    right = None if last is None else replace(last, expected=last_right)
    return Finding(replace(node or Place(), expected=tap, last_right=right), SURE)
