"""`untouched: true`: a call leaves its arguments and parameters as they were."""

from __future__ import annotations

from conformance.judging.common import Question
from conformance.language.program import Text
from conformance.pack.model import Claim
from conformance.results.records import Judgement


def reads(claim: Claim) -> frozenset[str]:
    """The arguments, after the call."""
    del claim
    return frozenset({"arguments"})


def judge(question: Question) -> Judgement:
    """The worker compares every argument with a copy that the target never saw."""
    seen = question.observation()
    if seen.failed is not None:
        return seen.failed
    if seen.modified:
        names = ", ".join(f"`{name}`" for name in seen.modified[:5])
        return Judgement(
            "fail",
            Text(f"the call changed its input {names} in place", f"调用就地修改了输入 {names}"),
            float("inf"),
        )
    return Judgement("pass", Text("every input is as it was", "所有输入保持不变"), 0.0)
