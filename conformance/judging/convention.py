"""`convention:` a choice of the adapter's, held to what it declares; undeclared, any of them."""

from __future__ import annotations

import numpy as np

from conformance.judging.common import Question, judged
from conformance.judging.compare import Comparison, compare
from conformance.language.arithmetic import Array
from conformance.language.expression import parse
from conformance.language.program import Text
from conformance.language.tensors import Named
from conformance.pack.documents import ConventionDocument
from conformance.pack.model import Claim
from conformance.results.records import Judgement

RAISES, AVOIDS = "error", "avoids"


def reads(claim: Claim) -> frozenset[str]:
    """The tensor that the convention is about."""
    body: ConventionDocument = claim.body
    return frozenset({body.tensor})


def judge(question: Question) -> Judgement:
    """The elements in question follow the declared convention, or some finite one."""
    body: ConventionDocument = question.claim.body
    declared = question.bench.offer.fully_masked
    if declared == AVOIDS:
        return Judgement(
            "unsupported",
            Text("this target declares that it avoids such queries", "该实现声明自己避免这样的查询"),
        )
    seen = question.observation()
    if seen.failed is not None:
        if seen.failed.verdict != "error":
            return seen.failed
        return _raised(seen.failed, declared)
    unusable = question.unusable(seen, body.tensor)
    if unusable is not None:
        return unusable
    if declared == RAISES:
        return Judgement(
            "fail",
            Text("it declares to raise here, and returned a tensor", "它声明此处会抛出异常，却返回了张量"),
        )
    where = parse(body.where, question.claim.at)
    got = seen.steps[0].outputs[body.tensor]
    counts = question.counted(0, got, where)
    chosen = got.array[np.broadcast_to(True if counts is None else counts, got.array.shape)]
    if not np.isfinite(chosen).all():
        return Judgement(
            "fail",
            Text("NaN or infinity where no key is visible", "没有可见键的行出现 NaN 或无穷"),
            float("inf"),
        )
    found = {
        name: min((_follows(question, got, form) for form in forms), key=lambda c: c.margin or 0.0)
        for name, forms in body.values.items()
    }
    if declared in found:
        return judged([found[declared]])
    name = next((name for name, comparison in found.items() if comparison.agrees), None)
    if name is None:
        return Judgement("pass", Text("finite, by a convention of its own", "结果有限，属于自有约定"), 0.0)
    return Judgement(
        "pass", Text(f'finite; the convention seen is "{name}"', f'结果有限；所见约定为 "{name}"'), 0.0
    )


def _raised(failed: Judgement, declared: str | None) -> Judgement:
    if declared == RAISES:
        return Judgement("pass", Text("it raises, as it declares", "如其声明抛出异常"), 0.0)
    return failed


def _value(question: Question, form: str) -> Named[Array]:
    """A form of the convention, over the program's own tensors."""
    scenario = question.scenario
    expected = question.bench.expected(scenario)[0]
    names = {
        **scenario.given,
        **{n.rpartition(".")[2]: t for n, t in expected.taps.items()},
        **expected.outputs,
    }
    return scenario.evaluate(form, names)


def _follows(question: Question, got: Named[Array], form: str) -> Comparison:
    body: ConventionDocument = question.claim.body
    scenario = question.scenario
    value = question.bench.prepared.of(scenario, ("form", form), lambda: _value(question, form))
    order = [axis for axis in got.axes if axis in value.axes]
    array = value.array.transpose([value.axes.index(axis) for axis in order])
    sizes = iter(array.shape)
    array = array.reshape([next(sizes) if axis in order else 1 for axis in got.axes])
    # These rows are no result of the program's, so their spread is taken from all the others.
    allowed = question.bench.allowed(scenario, question.dtype, 0, body.tensor)
    counts = question.counted(0, got, parse(body.where, question.claim.at))
    return compare(body.tensor, got, array, np.full_like(allowed, float(np.max(allowed))), counts)
