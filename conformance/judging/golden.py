"""`golden: output`: what the target returned equals what the program makes of the same inputs."""

from __future__ import annotations

from conformance.judging.common import Question, at_last_position, judged
from conformance.judging.compare import Comparison, compare
from conformance.language.tensors import Named
from conformance.pack.model import Claim
from conformance.results.records import Judgement


def reads(claim: Claim) -> frozenset[str]:
    """The output that is compared."""
    return frozenset({str(claim.body)})


def judge(question: Question) -> Judgement:
    """Every element of every call, within the tolerance of the dtype."""
    name = str(question.claim.body)
    seen = question.observation()
    unusable = question.unusable(seen, name)
    if unusable is not None:
        return unusable
    comparisons: list[Comparison] = []
    expected = question.bench.expected(question.scenario)
    for i, step in enumerate(seen.steps):
        want = expected[i].outputs[name]
        allowed = Named(want.axes, question.bench.allowed(question.scenario, question.dtype, i, name))
        counts = question.counted(i, want, question.claim.where)
        got = step.outputs[name]
        if seen.last_only:
            want, allowed, counts = at_last_position(want, allowed, counts)
        comparisons.append(compare(name, got, want.array, allowed.array, counts))
    return judged(comparisons)
