"""How a failure runs along the layers of a model and along the positions of a sequence, for charts.

A verdict names the worst element alone. What a person asks next is where it begins: in which layer, and,
with a cache, in which call. All of it is read from tensors that the target has already given; only the
sequence in one call, beside the same one with a cache, is asked for again.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from conformance.judging.common import Question, last_position, prefixes, spread_over
from conformance.judging.compare import errors
from conformance.language.arithmetic import Array
from conformance.language.tensors import Named
from conformance.results.records import Profile

GOLDEN, STAGE = "golden", "equation"
MEASURED = 3
"""Profiles of each sort against the program in a run: each may need tolerances of tensors that no claim compares."""
LENGTH = 512
"""Layers, or positions, of a profile; a longer one is not drawn."""

_LAYER = re.compile(r"((?:\w+\.)*layers\.\d+\.)")


@dataclass
class Profiler:
    """Makes the profiles of one run, and counts them."""

    made: Counter[str] = field(default_factory=Counter)

    def of(self, question: Question, *, passed: bool = False) -> tuple[Profile, ...]:
        """Those of a claim that failed, or of the first of a model that passed; () for most claims."""
        kind, scenario = question.claim.kind, question.scenario
        if not scenario.operation.model or kind not in (GOLDEN, STAGE):
            return ()
        if passed:
            whole = f"{scenario.variant.name} {question.dtype}"
            if kind == STAGE or scenario.cached or self.made[whole]:
                return ()
            self.made[whole] += 1
        if kind == STAGE:
            found = stages(question)
        elif scenario.lacking or self.made[which := "position" if scenario.cached else "layer"] >= MEASURED:
            return ()
        else:
            self.made[which] += 1
            found = positions(question) if scenario.cached else layers(question)
        if found is None or not 1 < len(found.margins) <= LENGTH:
            return ()
        return (found,) if any(margin is not None for margin in found.margins) else ()


def layers(question: Question) -> Profile | None:
    """The last tensor that each layer shows, and the output, against the program's; None where none is shown."""
    scenario, bench, dtype = question.scenario, question.bench, question.dtype
    seen = question.observation()
    if len(seen.steps) != 1:
        return None
    (step,), (expected,) = seen.steps, bench.expected(scenario)
    last = {found[1]: name for name in expected.taps if name in step.taps and (found := _LAYER.match(name))}
    if not last:
        return None
    tensors, margins = [], []
    for name in last.values():
        got, want = step.taps[name], expected.taps[name]
        allowed = Named(want.axes, bench.allowed(scenario, dtype, 0, name))
        tensors.append(name)
        margins.append(_worst(got, want, allowed, question.counted(0, want)))
    output = scenario.main_output
    if output in step.outputs and not seen.last_only:
        want = expected.outputs[output]
        allowed = Named(want.axes, bench.allowed(scenario, dtype, 0, output))
        tensors.append(output)
        margins.append(_worst(step.outputs[output], want, allowed, question.counted(0, want)))
    return Profile("layer", tuple(tensors), tuple(margins))


def stages(question: Question) -> Profile | None:
    """The stage of an `equation` claim in each layer, on the target's own tensors before it."""
    scenario, bench, dtype = question.scenario, question.bench, question.dtype
    seen = question.observation()
    if not seen.steps or scenario.cached:
        return None
    (step,), (expected,) = seen.steps, bench.expected(scenario)
    tensors, margins = [], []
    for name in prefixes(dict(expected.taps), str(question.claim.body)):
        if name in step.taps and _LAYER.match(name):
            want = bench.local(scenario, dtype)[0][name]
            allowed = Named(want.axes, bench.local_allowed(scenario, dtype, 0, name))
            counts = question.counted(0, step.taps[name], question.claim.where)
            tensors.append(name)
            margins.append(_worst(step.taps[name], want, allowed, counts))
    return Profile("layer", tuple(tensors), tuple(margins), local=True)


def positions(question: Question) -> Profile | None:
    """The output along the positions of a sequence that came in several calls, and of the same one in a single call."""
    name, scenario = str(question.claim.body), question.scenario
    cached = _along(question, name)
    if cached is None:
        return None
    whole = scenario.derive("in one call", lambda: scenario.changed(schedule=()))
    single = _along(replace(question, scenario=whole), name)
    at_once = tuple(single) if single is not None and len(single) == len(cached) else ()
    return Profile("position", (name,), tuple(cached), calls=scenario.schedule, at_once=at_once)


def _along(question: Question, name: str) -> list[float | None] | None:
    """The worst error at each position of an output, its calls one after the other; None where there is none."""
    scenario, bench, dtype = question.scenario, question.bench, question.dtype
    seen = question.observation()
    if question.unusable(seen, name) is not None:
        return None
    found: list[float | None] = []
    for i, step in enumerate(seen.steps):
        want = bench.expected(scenario)[i].outputs[name]
        if "query" not in want.axes:
            return None
        allowed = Named(want.axes, bench.allowed(scenario, dtype, i, name))
        counts = question.counted(i, want, question.claim.where)
        before = want.array.shape[want.axes.index("query")] - 1
        if seen.last_only:
            want, allowed = last_position(want), last_position(allowed)
            if counts is not None and counts.shape[want.axes.index("query")] > 1:
                counts = spread_over(last_position(Named(want.axes, counts)), want.axes)
            found += [None] * before
        margins = _errors(step.outputs[name], want, allowed, counts)
        axis = want.axes.index("query")
        worst = margins.max(axis=tuple(i for i in range(margins.ndim) if i != axis), initial=-1.0)
        found += [float(m) if m >= 0 else None for m in worst]
    return found


def _worst(
    got: Named[Array], want: Named[Array], allowed: Named[Array], counts: Array | None
) -> float | None:
    worst = float(_errors(got, want, allowed, counts).max(initial=-1.0))
    return worst if worst >= 0 else None


def _errors(got: Named[Array], want: Named[Array], allowed: Named[Array], counts: Array | None) -> Array:
    """The error of each element in tolerances, on the axes of `got`; `counts` lies on them already."""
    order = [want.axes.index(axis) for axis in got.axes]
    values = np.asarray(got.array, dtype=np.float64)
    expected, tolerance = (
        np.broadcast_to(np.asarray(tensor.array, np.float64).transpose(order), values.shape)
        for tensor in (want, allowed)
    )
    return errors(values, expected, tolerance, counts)
