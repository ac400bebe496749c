"""`shape: [scores, weights]`: each tensor has the declared axes, with the sizes of the case."""

from __future__ import annotations

from conformance.judging import texts
from conformance.judging.common import Question, prefixes
from conformance.language.program import Text
from conformance.pack.model import Claim
from conformance.results.records import Judgement


def reads(claim: Claim) -> frozenset[str]:
    """The tensors whose shapes are checked."""
    return frozenset(claim.body)


def judge(question: Question) -> Judgement:
    """Every one of the tensors that can be seen; `unsupported` where none can."""
    seen = question.observation()
    if seen.failed is not None:
        return seen.failed
    expected = question.bench.expected(question.scenario)
    visible = 0
    for name in question.claim.body:
        if name in expected[0].outputs:
            if name in seen.shapes:
                return Judgement(
                    "fail", texts.shape(name, expected[0].outputs[name].axes, *seen.shapes[name])
                )
            visible += all(name in step.outputs for step in seen.steps)
            if seen.last_only or all(name in step.outputs for step in seen.steps):
                continue
        for tap in prefixes(dict(expected[0].taps), name):
            if tap in seen.shapes:
                return Judgement("fail", texts.shape(tap, expected[0].taps[tap].axes, *seen.shapes[tap]))
            visible += all(tap in step.taps for step in seen.steps)
    if not visible:
        return Judgement("unsupported", texts.unseen(str(question.claim.body[0])))
    return Judgement("pass", Text("every visible tensor has its shape", "所有可见张量的形状都正确"))
