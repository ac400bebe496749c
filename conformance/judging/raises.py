"""`raises: {argument, make}`: a bad argument gets an error, not a tensor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conformance.judging.common import Question
from conformance.judging.observe import call_of, failure
from conformance.language.errors import PackError
from conformance.language.program import Text
from conformance.pack.documents import RaisesDocument
from conformance.pack.model import Claim
from conformance.results.records import Judgement
from conformance.session import OperationCall, Raised, Returned


def reads(claim: Claim) -> frozenset[str]:
    """Whatever comes back."""
    del claim
    return frozenset({"output"})


def judge(question: Question) -> Judgement:
    """Call with the argument spoilt; any exception of the target's own is an answer."""
    body: RaisesDocument = question.claim.body
    shapes = [step.shapes for step in question.bench.expected(question.scenario)]
    call = call_of(question.scenario, tap=False, expect=shapes)
    if not isinstance(call, OperationCall) or not isinstance(call.arguments.get(body.argument), np.ndarray):
        raise PackError(
            f"'{body.argument}' is no tensor argument of {question.claim.operation}", question.claim.at
        )
    if body.make != "transposed":
        raise PackError(f"an argument can be made 'transposed', not '{body.make}'", question.claim.at)
    spoilt = np.ascontiguousarray(np.swapaxes(np.asarray(call.arguments[body.argument]), -1, -2))
    # Called as it should be first: a target that raises then is simply broken.
    usual = question.observation()
    if usual.failed is not None:
        return usual.failed
    bad = replace(call, arguments={**call.arguments, body.argument: spoilt})
    outcome = question.bench.ask(bad, question.scenario, question.dtype)
    if isinstance(outcome, Raised):
        said = f"it raised {outcome.type}: {outcome.message}"
        return Judgement("pass", Text(said[:300], f"抛出异常 {outcome.type}：{outcome.message}"[:300]), 0.0)
    if isinstance(outcome, Returned):
        got = list(next(iter(outcome.outputs[0].shapes.values()), ()))
        return Judgement(
            "fail",
            Text(
                f"with `{body.argument}` transposed it returned a tensor of shape {got}; an error was expected",
                f"`{body.argument}` 被转置后仍返回了形状为 {got} 的张量；应当报错",
            ),
            float("inf"),
        )
    failed = failure(outcome, question.scenario.operation.signature)
    assert failed is not None
    return failed
