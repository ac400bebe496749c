"""`distinct: {tensor, from}`: what came is not what a named mistake makes of the inputs."""

from __future__ import annotations

import numpy as np

from conformance.judging import texts
from conformance.judging.common import Question
from conformance.language.errors import PackError
from conformance.language.program import Text
from conformance.pack.documents import DistinctDocument
from conformance.pack.model import Claim
from conformance.results.records import Diagnosis, Judgement


def reads(claim: Claim) -> frozenset[str]:
    """The tensor that must be another."""
    body: DistinctDocument = claim.body
    return frozenset({body.tensor})


def judge(question: Question) -> Judgement:
    """Fails where the tensor equals the mistake's, unless the mistake makes no difference here."""
    body: DistinctDocument = question.claim.body
    seen = question.observation()
    unusable = question.unusable(seen, body.tensor)
    if unusable is not None:
        return unusable
    pack = question.scenario.pack
    try:
        wrong = question.bench.mistaken(question.scenario, body.mistake)
    except PackError:
        # At these sizes nobody can make the mistake: its shapes do not fit.
        return Judgement(
            "pass", Text("the mistake does not fit these sizes", "该错误在这些尺寸下无法成立"), 0.0
        )
    right = question.bench.expected(question.scenario)
    nearest, told_apart = 0.0, False
    for i, step in enumerate(seen.steps):
        allowed = question.bench.allowed(question.scenario, question.dtype, i, body.tensor)
        mistaken, true = wrong[i].outputs[body.tensor].array, right[i].outputs[body.tensor].array
        got = step.outputs[body.tensor].array
        if got.shape != true.shape:
            continue
        with np.errstate(all="ignore"):
            told_apart |= bool((np.abs(mistaken - true) > 2 * allowed).any())
            apart = np.abs(got - mistaken) / np.maximum(allowed, 5e-324)
        nearest = max(nearest, float(np.nan_to_num(apart, nan=np.inf).max(initial=0.0)))
    if not told_apart:
        return Judgement("unsupported", texts.nothing_to_compare())
    if nearest > 1:
        return Judgement(
            "pass", Text(f"`{body.tensor}` is another", f"`{body.tensor}` 与之不同"), 1 / nearest
        )
    says = pack.program.mistakes[body.mistake].says
    return Judgement("fail", says, float("inf"), diagnosis=(Diagnosis(body.mistake, nearest, says),))
