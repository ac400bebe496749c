"""`equation: weights`: a stage of the program, on the target's own tensors before it.

What lies upstream is the target's, right or wrong, so one wrong stage is one red claim.
"""

from __future__ import annotations

from conformance.judging import texts
from conformance.judging.common import Question, judged, prefixes
from conformance.judging.compare import Comparison, compare
from conformance.pack.model import Claim
from conformance.results.records import Judgement


def reads(claim: Claim) -> frozenset[str]:
    """The tensor that the stage makes."""
    return frozenset({str(claim.body)})


def judge(question: Question) -> Judgement:
    """The stage in every layer and call."""
    name = str(question.claim.body)
    seen = question.observation()
    if seen.failed is not None:
        return seen.failed
    expected = question.bench.expected(question.scenario)
    wanted = prefixes(dict(expected[0].taps), name)
    for tap in wanted:
        if tap in seen.shapes:
            return Judgement("fail", texts.shape(tap, expected[0].taps[tap].axes, *seen.shapes[tap]))
    if not wanted or not any(tap in step.taps for step in seen.steps for tap in wanted):
        return Judgement("unsupported", texts.unseen(name))
    local = question.bench.local(question.scenario, question.dtype)
    comparisons: list[Comparison] = []
    for i, step in enumerate(seen.steps):
        for tap in wanted:
            if tap not in step.taps:
                continue
            got, want = step.taps[tap], local[i][tap]
            order = [want.axes.index(axis) for axis in got.axes]
            allowed = question.bench.local_allowed(question.scenario, question.dtype, i, tap).transpose(order)
            counts = question.counted(i, got, question.claim.where)
            comparisons.append(compare(tap, got, want.array.transpose(order), allowed, counts))
    return judged(comparisons)
