"""`runtime:` the same graph run another way must give the same: optimised or not, watched or not."""

from __future__ import annotations

from dataclasses import replace

from conformance.judging.common import Question, at_last_position, judged
from conformance.judging.compare import Comparison, compare
from conformance.judging.observe import call_of, observation
from conformance.language.program import Text
from conformance.language.tensors import Named
from conformance.pack.documents import RuntimeDocument
from conformance.pack.model import Claim
from conformance.results.records import Judgement
from conformance.session import ModelCall
from conformance.tolerance import joined, tolerance


def reads(claim: Claim) -> frozenset[str]:
    """The model's main output."""
    del claim
    return frozenset({"logits"})


def judge(question: Question) -> Judgement:
    """Run the scenario as usual, and once for each other way; compare with the noise of both."""
    body: RuntimeDocument = question.claim.body
    scenario, bench = question.scenario, question.bench
    name = scenario.main_output
    usual = question.observation()
    unusable = question.unusable(usual, name)
    if unusable is not None:
        return unusable
    expected = bench.expected(scenario)
    shapes = [step.shapes for step in expected]
    comparisons: list[tuple[str, Comparison]] = []
    ways = [("optimisation", level) for level in body.optimisation] + [("tapped", True)] * bool(body.tapped)
    for key, value in ways:
        call = call_of(scenario, tap=key == "tapped", expect=shapes)
        assert isinstance(call, ModelCall)
        if key != "tapped":
            call = replace(call, config={**call.config, key: value})
        seen = observation(scenario, bench.session.call(call, question.dtype), expected, question.dtype)
        unusable = question.unusable(seen, name)
        if unusable is not None:
            how = f"with optimisations {value}" if key != "tapped" else "with inner values as outputs"
            zh = f"图优化为 {value} 时" if key != "tapped" else "以中间值为输出时"
            said = Text(f"{how}: {unusable.summary.en}", f"{zh}：{unusable.summary.zh}")
            return replace(unusable, summary=said)
        for i, step in enumerate(seen.steps):
            want = usual.steps[i].outputs[name]
            sigma = bench.sigma(scenario, question.dtype, i, name)
            allowed = Named(want.axes, tolerance(joined(sigma, sigma), question.dtype))
            counts = question.counted(i, want)
            if seen.last_only:  # `usual` was put together from all prefixes
                want, allowed, counts = at_last_position(want, allowed, counts)
            comparisons.append(
                (str(value), compare(name, step.outputs[name], want.array, allowed.array, counts))
            )
    found = judged([comparison for _, comparison in comparisons])
    if found.verdict != "fail" or found.evidence is None:
        return found
    way = next(w for w, c in comparisons if c.evidence is found.evidence)
    return replace(
        found,
        summary=Text(f"{way}: {found.summary.en}", f"{way}：{found.summary.zh}"),
    )
