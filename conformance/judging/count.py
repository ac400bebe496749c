"""`count: {parameters, equals}`: how many numbers the target's own parameters hold.

A target that has a function `parameter_shapes(config)`, name to shape, can be counted; others are
`unsupported`.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from math import prod

from conformance.judging.common import Question
from conformance.judging.observe import config, failure
from conformance.language.program import Text
from conformance.pack.documents import CountDocument
from conformance.pack.model import Claim
from conformance.results.records import Evidence, Judgement
from conformance.session import OperationCall, Returned

PARAMETER_SHAPES = "parameter_shapes"


def reads(claim: Claim) -> frozenset[str]:
    """The target's parameters."""
    del claim
    return frozenset({"parameters"})


def judge(question: Question) -> Judgement:
    """Count the parameters of the pattern."""
    body: CountDocument = question.claim.body
    if PARAMETER_SHAPES not in question.bench.offer.functions:
        return Judgement(
            "unsupported",
            Text(
                "the target defines no `parameter_shapes(config)`, so its parameters cannot be counted",
                "该实现没有定义 `parameter_shapes(config)`，无法统计参数量",
            ),
        )
    call = OperationCall(PARAMETER_SHAPES, {}, config=config(question.scenario), returns=("output",))
    outcome = question.bench.ask(call, question.scenario, question.dtype)
    failed = failure(outcome, "parameter_shapes(config)")
    if failed is not None or not isinstance(outcome, Returned):
        assert failed is not None
        return failed
    shapes = {name: tuple(int(n) for n in array) for name, array in outcome.outputs[0].taps.items()}
    counted = {name: prod(shape) for name, shape in shapes.items() if fnmatchcase(name, body.parameters)}
    total = sum(counted.values())
    expected = int(question.scenario.evaluate(body.equals, {}).array)
    if total == expected:
        said = f"{body.parameters} holds {total} numbers, as {body.equals} says"
        return Judgement("pass", Text(said, f"{body.parameters} 共 {total} 个数，与 {body.equals} 一致"), 0.0)
    named = ", ".join(f"{name} {shapes[name]}" for name in list(counted)[:6]) or "no parameter of that name"
    return Judgement(
        "fail",
        Text(
            f"{body.parameters} holds {total} numbers ({named}); {body.equals} = {expected} was expected",
            f"{body.parameters} 共 {total} 个数（{named}）；应为 {body.equals} = {expected}",
        ),
        float("inf"),
        Evidence("parameters", {}, float(total), float(expected), 0.0),
    )
