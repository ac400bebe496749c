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
    """Run the scenario as usual, and once for each other way; compare with the noise of both.

    As usual means: with all optimisations, and inner values as outputs. In every other way there are none of these.
    """
    body: RuntimeDocument = question.claim.body
    scenario, bench = question.scenario, question.bench
    name = scenario.main_output
    usual = question.observation()
    unusable = question.unusable(usual, name)
    if unusable is not None:
        return unusable
    expected = bench.expected(scenario)
    shapes = [step.shapes for step in expected]
    comparisons: list[tuple[tuple[str, str], Comparison]] = []
    ways = [("optimisation", level) for level in body.optimisation] + [("tapped", False)] * bool(body.tapped)
    for key, value in ways:
        call = call_of(scenario, tap=False, expect=shapes)
        assert isinstance(call, ModelCall)
        call = replace(call, config={**call.config, key: value})
        if scenario.own is not None and scenario.large:
            scenario.own.let_go()  # while the runtime takes as much for another session
        seen = observation(scenario, bench.session.call(call, question.dtype), expected, question.dtype)
        unusable = question.unusable(seen, name)
        if unusable is not None:
            how, zh = _way(key, value)
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
                (_way(key, value), compare(name, step.outputs[name], want.array, allowed.array, counts))
            )
    found = judged([comparison for _, comparison in comparisons])
    if found.verdict != "fail" or found.evidence is None:
        return found
    how, zh = next(way for way, c in comparisons if c.evidence is found.evidence)
    return replace(found, summary=Text(f"{how}: {found.summary.en}", f"{zh}：{found.summary.zh}"))


def _way(key: str, value: str | bool) -> tuple[str, str]:
    """How the graph was run, in words."""
    if key == "tapped":
        return "without inner values as outputs", "不以中间值为输出时"
    return f"with optimisations {value}", f"图优化为 {value} 时"
