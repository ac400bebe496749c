"""Kinds of claim by name. A new kind is one module with `judge` and `reads`, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from conformance.judging import (
    convention,
    count,
    derivative,
    distinct,
    equation,
    experiment,
    golden,
    graph,
    holds,
    raises,
    runtime,
    shape,
    statistic,
    untouched,
)
from conformance.judging.common import Question
from conformance.pack.model import Claim
from conformance.results.records import Judgement


@dataclass(frozen=True)
class Kind:
    """How claims of a kind are judged, and which tensors of the target they read."""

    judge: Callable[[Question], Judgement]
    reads: Callable[[Claim], frozenset[str]]


KINDS: Mapping[str, Kind] = {
    "shape": Kind(shape.judge, shape.reads),
    "equation": Kind(equation.judge, equation.reads),
    "holds": Kind(holds.judge, holds.reads),
    "golden": Kind(golden.judge, golden.reads),
    "experiment": Kind(experiment.judge, experiment.reads),
    "distinct": Kind(distinct.judge, distinct.reads),
    "derivative": Kind(derivative.judge, derivative.reads),
    "statistic": Kind(statistic.judge, statistic.reads),
    "count": Kind(count.judge, count.reads),
    "raises": Kind(raises.judge, raises.reads),
    "convention": Kind(convention.judge, convention.reads),
    "untouched": Kind(untouched.judge, untouched.reads),
    "graph": Kind(graph.judge, graph.reads),
    "runtime": Kind(runtime.judge, runtime.reads),
}

OF_GRAPHS = frozenset({"graph", "runtime"})
"""Kinds of claim that are about graphs alone; of other targets they are not asked."""
