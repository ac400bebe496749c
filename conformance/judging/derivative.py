"""`derivative: {tensor, by, step}`: finite secants along random directions equal the program's.

A secant needs no autograd, and over a finite step it is exact for both sides: the difference of
two calls, divided by the step, with the rounding of both. Where the target records gradients, its
own are compared as well: a forward pass may be right and its graph cut.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np

from conformance.judging.common import Question, judged
from conformance.judging.compare import Comparison, compare
from conformance.judging.observe import call_of
from conformance.language.arithmetic import Array, Float64
from conformance.language.errors import PackError
from conformance.language.tensors import Named
from conformance.noise import ROUNDOFF
from conformance.pack.documents import DerivativeDocument
from conformance.pack.model import Claim
from conformance.plan import draws
from conformance.plan.scenario import Scenario
from conformance.results.records import Judgement
from conformance.session import Gradient, OperationCall, Returned
from conformance.tolerance import joined, tolerance

DIRECTIONS = 2
SMALL = (2.0**-12, 2.0**-16, 2.0**-20)
"""Steps of the program's own differences, which float64 bears to about 1e-9."""
GRADIENT_ROUNDINGS = 64
"""Roundings that a gradient may add up; float32 leaves 4e-6 of it, and a cut graph changes it by its own size."""


def reads(claim: Claim) -> frozenset[str]:
    """The tensor whose derivative is taken."""
    body: DerivativeDocument = claim.body
    return frozenset({body.tensor})


def judge(question: Question) -> Judgement:
    """Central secants in a few directions."""
    body: DerivativeDocument = question.claim.body
    comparisons: list[Comparison] = []
    for i in range(DIRECTIONS):
        sides = [replace(question, scenario=side(question, sign, i)) for sign in (1, -1)]
        values, wanted, sigmas = [], [], []
        for asked in sides:
            seen = asked.observation()
            unusable = asked.unusable(seen, body.tensor)
            if unusable is not None:
                return unusable
            values.append(seen.steps[0].outputs[body.tensor])
            wanted.append(asked.bench.expected(asked.scenario)[0].outputs[body.tensor].array)
            sigmas.append(asked.bench.sigma(asked.scenario, asked.dtype, 0, body.tensor))
        axes = values[0].axes
        width = 2 * float(body.step)
        with np.errstate(all="ignore"):
            secant = (np.asarray(values[0].array, np.float64) - values[1].array) / width
            exact = (wanted[0] - wanted[1]) / width
        allowed = tolerance(joined(*sigmas), question.dtype) / width
        counts = question.counted(0, Named(axes, exact), question.claim.where)
        name = f"d {body.tensor} / d {body.by}"
        comparisons.append(compare(name, Named(axes, secant), exact, allowed, counts))
        if i == 0:
            weighted = by_autograd(question, body, np.where(np.isfinite(allowed), allowed, 0.0), counts)
            comparisons += [weighted] if weighted is not None else []
    return judged(comparisons)


def side(question: Question, sign: int, direction: int) -> Scenario:
    """One side of a secant; of a large target it is not kept."""
    scenario, claim = question.scenario, question.claim
    if scenario.large:
        return shifted(scenario, claim.body, sign, direction)
    what = ("shifted", claim.id, sign, direction)
    return scenario.derive(what, lambda: shifted(scenario, claim.body, sign, direction))


def by_autograd(
    question: Question, body: DerivativeDocument, allowed: Array, counts: Array | None
) -> Comparison | None:
    """The slope of a weighted sum of the output along a direction, by the target's own gradient.

    None where there is no autograd or it recorded nothing, where `by` is no argument, near a kink (of a
    ReLU), where nobody's gradient is wrong; in sixteen bits, whose roundings would hide a cut graph, and in
    float64, where the program's own differences are not exact enough. `allowed` is the tolerance of a secant
    of each element.
    """
    scenario = question.scenario
    if question.bench.offer.framework != "torch" or body.by not in scenario.given:
        return None
    if question.dtype != "float32":
        return None
    want = question.bench.expected(scenario)[0].outputs[body.tensor]
    random = draws.generator(scenario.seed, scenario.case.id, body.by, "weights")
    weights = random.choice([-1.0, 0.0, 1.0], size=want.array.shape)
    weights = weights if counts is None else np.where(np.broadcast_to(counts, weights.shape), weights, 0.0)
    call = call_of(scenario, tap=False, expect=[{"gradient": scenario.given[body.by].array.shape}])
    if not isinstance(call, OperationCall) or body.by not in call.arguments:
        return None
    outcome = question.bench.ask(replace(call, gradient=Gradient(body.by, weights)), scenario, question.dtype)
    if not isinstance(outcome, Returned) or "gradient" not in outcome.outputs[0].tensors:
        return None
    gradient = np.asarray(outcome.outputs[0].tensors["gradient"], np.float64)
    way = direction_of(scenario, body, 0)
    slope = float(np.sum(gradient * way))
    exact, apart = slope_of(scenario, body, weights)
    # A gradient rounds about as often as the result does, each time by what passes through it.
    rounding = GRADIENT_ROUNDINGS * ROUNDOFF[question.dtype] * float(np.sum(np.abs(gradient * way)))
    tolerated = float(np.sum(np.abs(weights) * allowed)) + rounding
    if apart > tolerated / 4:
        return None  # there is no one slope to compare with
    name = f"autograd's d {body.tensor} / d {body.by}"
    return compare(name, Named((), np.array(slope)), np.array(exact), np.array(tolerated), None)


def slope_of(scenario: Scenario, body: DerivativeDocument, weights: Array) -> tuple[float, float]:
    """The program's slope of a weighted sum of its output, and how far it is from having one.

    The second is the most that differences over three steps, and over the two sides of the smallest,
    part: it is large where a kink (of ReLU, of a maximum) lies at the point, or near it.
    """

    def total(step: float, sign: int) -> float:
        moved = shifted(scenario, msgspec.structs.replace(body, step=step), sign, 0)
        return float(np.sum(weights * moved.read(Float64())[0].outputs[body.tensor].array))

    sides = [(step, total(step, 1), total(step, -1)) for step in SMALL]
    slopes = [(above - below) / (2 * step) for step, above, below in sides]
    step, above, below = sides[-1]
    here = total(0.0, 1)
    apart = max(abs(one - other) for one in slopes for other in slopes)
    return slopes[1], max(apart, abs(above + below - 2 * here) / step)


def direction_of(scenario: Scenario, body: DerivativeDocument, direction: int) -> Array:
    """A direction in which `by` is moved: each element up, down, or not at all."""
    group = scenario.given if body.by in scenario.given else scenario.parameters
    random = draws.generator(scenario.seed, scenario.case.id, body.by, "direction", str(direction))
    return random.choice([-1.0, 0.0, 1.0], size=group[body.by].array.shape)


def shifted(scenario: Scenario, body: DerivativeDocument, sign: int, direction: int) -> Scenario:
    """The scenario with `by` moved by a step along a direction. Raises `PackError`."""
    given, parameters = dict(scenario.given), dict(scenario.parameters)
    group = given if body.by in given else parameters
    if body.by not in group:
        raise PackError(f"'{scenario.case.id}' has no '{body.by}'", scenario.case.at)
    old = group[body.by]
    way = direction_of(scenario, body, direction)
    group[body.by] = Named(old.axes, old.array + sign * float(body.step) * way)
    return scenario.changed(given=given, parameters=parameters)
