"""`derivative: {tensor, by, step}`: finite secants along random directions equal the program's.

A secant needs no autograd, and over a finite step it is exact for both sides: the difference of
two calls, divided by the step, with the rounding of both.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conformance.judging.common import Question, judged
from conformance.judging.compare import Comparison, compare
from conformance.language.errors import PackError
from conformance.language.tensors import Named
from conformance.pack.documents import DerivativeDocument
from conformance.pack.model import Claim
from conformance.plan import draws
from conformance.plan.scenario import Scenario
from conformance.results.records import Judgement
from conformance.tolerance import joined, tolerance

DIRECTIONS = 2


def reads(claim: Claim) -> frozenset[str]:
    """The tensor whose derivative is taken."""
    body: DerivativeDocument = claim.body
    return frozenset({body.tensor})


def judge(question: Question) -> Judgement:
    """Central secants in a few directions."""
    body: DerivativeDocument = question.claim.body
    comparisons: list[Comparison] = []
    for i in range(DIRECTIONS):
        sides = [replace(question, scenario=shifted(question.scenario, body, sign, i)) for sign in (1, -1)]
        values, wanted, sigmas = [], [], []
        for side in sides:
            seen = side.observation()
            unusable = side.unusable(seen, body.tensor)
            if unusable is not None:
                return unusable
            values.append(seen.steps[0].outputs[body.tensor])
            wanted.append(side.bench.expected(side.scenario)[0].outputs[body.tensor].array)
            sigmas.append(side.bench.sigma(side.scenario, side.dtype, 0, body.tensor))
        axes = values[0].axes
        width = 2 * float(body.step)
        with np.errstate(all="ignore"):
            secant = (np.asarray(values[0].array, np.float64) - values[1].array) / width
            exact = (wanted[0] - wanted[1]) / width
        allowed = tolerance(joined(*sigmas), question.dtype) / width
        counts = question.counted(0, Named(axes, exact), question.claim.where)
        name = f"d {body.tensor} / d {body.by}"
        comparisons.append(compare(name, Named(axes, secant), exact, allowed, counts))
    return judged(comparisons)


def shifted(scenario: Scenario, body: DerivativeDocument, sign: int, direction: int) -> Scenario:
    """The scenario with `by` moved by a step along a direction. Raises `PackError`."""
    given, parameters = dict(scenario.given), dict(scenario.parameters)
    group = given if body.by in given else parameters
    if body.by not in group:
        raise PackError(f"'{scenario.case.id}' has no '{body.by}'", scenario.case.at)
    old = group[body.by]
    random = draws.generator(scenario.seed, scenario.case.id, body.by, "direction", str(direction))
    way = random.choice([-1.0, 0.0, 1.0], size=old.array.shape)
    group[body.by] = Named(old.axes, old.array + sign * float(body.step) * way)
    return scenario.changed(given=given, parameters=parameters)
