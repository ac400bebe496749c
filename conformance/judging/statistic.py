"""`statistic: {tensor, expression, equals}`: a mean over many seeds, with its sampling error.

The program is read on the same samples. A target that computes the same has the same mean, however
far chance puts that from the number; so chance alone never fails anyone.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial

import numpy as np

from conformance.judging import texts
from conformance.judging.common import Question, prefixes
from conformance.judging.spreads import in_order
from conformance.language.arithmetic import Array
from conformance.language.expression import names_in, parse
from conformance.language.program import Text
from conformance.language.tensors import Named
from conformance.noise import Noise, default_generator, spread
from conformance.pack.documents import StatisticDocument
from conformance.pack.model import Claim
from conformance.plan.scenario import Scenario, Tensors
from conformance.plan.scenarios import instantiate
from conformance.results.records import Evidence, Judgement
from conformance.tolerance import tolerance

BOUND = 6.0
"""Standard errors that the target's mean may be off beyond what the program's is."""


def reads(claim: Claim) -> frozenset[str]:
    """The tensors of the expression."""
    body: StatisticDocument = claim.body
    return names_in(parse(body.expression, claim.at)) | {body.tensor}


def judge(question: Question) -> Judgement:
    """The mean of the expression over all elements and seeds."""
    body: StatisticDocument = question.claim.body
    own: list[float] = []
    exact: list[float] = []
    for i in range(body.seeds):
        asked = replace(question, scenario=reseeded(question.scenario, i))
        seen = asked.observation()
        outputs = asked.scenario.operation.outputs
        unusable = asked.unusable(seen, *((body.tensor,) if body.tensor in outputs else ()))
        if unusable is not None:
            return unusable
        want = asked.bench.expected(asked.scenario)[0]
        pairs = [(step, seen.steps[0].find(step)) for step in places(want, body.tensor)]
        if any(tensor is None for _, tensor in pairs):
            return Judgement("unsupported", texts.unseen(body.tensor))
        own.append(float(np.mean([mean(asked, t) for _, t in pairs if t is not None])))
        what = ("mean", body.expression, body.tensor, question.claim.where and question.claim.where.text)
        exact.append(question.bench.prepared.of(asked.scenario, what, partial(_exact_mean, asked, want)))
    got, true, wanted = float(np.mean(own)), float(np.mean(exact)), float(body.equals)
    error = float(np.std(exact, ddof=1) / np.sqrt(len(exact))) if len(exact) > 1 else abs(true - wanted)
    allowed = abs(true - wanted) + BOUND * error + rounding(question)
    margin = abs(got - wanted) / allowed if np.isfinite(got) and allowed > 0 else float("inf")
    said = f"the mean of {body.expression} is {got:.4g}; {wanted:g} ± {allowed:.2g} was expected"
    text = Text(said, f"{body.expression} 的均值为 {got:.4g}；应为 {wanted:g} ± {allowed:.2g}")
    if margin <= 1:
        return Judgement("pass", text, margin)
    return Judgement("fail", text, margin, Evidence(body.tensor, {}, got, wanted, allowed))


def places(want: Tensors, name: str) -> list[str]:
    """The output of that name, or the taps of that name in every layer."""
    return [name] if name in want.outputs else prefixes(dict(want.taps), name)


def reseeded(scenario: Scenario, i: int) -> Scenario:
    """The same case with other random inputs; the first is the scenario itself."""
    if i == 0:
        return scenario
    return scenario.derive(
        ("reseeded", i),
        lambda: instantiate(
            scenario.pack,
            scenario.operation,
            scenario.case,
            scenario.variant,
            scenario.choices,
            scenario.seed + 7919 * i,
        ),
    )


def rounding(question: Question) -> float:
    """What the dtype's own rounding may move the mean by: the mean of the elements' tolerances, seed 0.

    Without it a statistic that has no sampling error (a mean that a norm makes 0) would allow nothing.
    """
    body: StatisticDocument = question.claim.body
    scenario, bench = question.scenario, question.bench
    name = places(bench.expected(scenario)[0], body.tensor)[0]
    text = hashlib.sha256(f"{body.expression} of {name} where {question.claim.where}".encode()).hexdigest()[
        :16
    ]
    key = f"{scenario.key[:24]}/{question.dtype}/mean/{text}"
    if key not in bench.store:
        bench.store[key] = np.asarray(_rounding(question, name))
    return float(bench.store[key])


def _rounding(question: Question, name: str) -> float:
    body: StatisticDocument = question.claim.body
    scenario, bench = question.scenario, question.bench
    exact = bench.expected(scenario)[0].find(name)
    noisy = bench.spreads.samples(scenario, question.dtype)[0].find(name)
    assert exact is not None
    assert noisy is not None
    noise = Noise(question.dtype, default_generator(scenario.key))
    value = scenario.evaluate(body.expression, {body.tensor: exact})
    samples = scenario.evaluate(body.expression, {body.tensor: noisy}, noise)
    allowed = tolerance(spread(in_order(samples, value.axes), value.array), question.dtype)
    counts = question.counted(0, value, question.claim.where)
    return float(np.mean(allowed if counts is None else allowed[np.broadcast_to(counts, allowed.shape)]))


def _exact_mean(question: Question, want: Tensors) -> float:
    """The mean over all places of the program's own tensors."""
    found = [want.find(place) for place in places(want, question.claim.body.tensor)]
    return float(np.mean([mean(question, tensor) for tensor in found if tensor is not None]))


def mean(question: Question, tensor: Named[Array]) -> float:
    """The expression's mean over one scenario."""
    body: StatisticDocument = question.claim.body
    value = question.scenario.evaluate(body.expression, {body.tensor: tensor})
    counts = question.counted(0, value, question.claim.where)
    array = np.asarray(value.array, np.float64)
    return float(np.mean(array if counts is None else array[np.broadcast_to(counts, array.shape)]))
