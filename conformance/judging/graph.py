"""`graph: check`: what a graph does, as far as it could be read; what could not is no failure.

Each check looks at the facts of `conformance.onnx.facts` and says what is wrong, and at which node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.judging.common import Question
from conformance.judging.graph_checks import CHECKS, Finding, Unknown
from conformance.language.program import Text
from conformance.pack.model import Claim, Pack
from conformance.results.records import Diagnosis, Judgement, Place


def reads(claim: Claim) -> frozenset[str]:
    """A graph is what the target computes; the logits stand for it."""
    del claim
    return frozenset({"logits"})


def judge(question: Question) -> Judgement:
    """Pass where everything that the check is about was read and is right."""
    graph = question.bench.graph
    if graph is None:
        return Judgement("unsupported", Text("the target is no graph", "该目标不是计算图"))
    check = CHECKS[str(question.claim.body)]
    results = list(check(graph.facts, question.scenario.choices))
    wrong = [r for r in results if isinstance(r, Finding) and not r.right]
    if wrong:
        return _failed(question.scenario.pack, wrong)
    unknown = [r for r in results if isinstance(r, Unknown)]
    if unknown or not results:
        why = unknown[0].why if unknown else Text("the graph has nothing of the kind", "图中没有这样的部分")
        return Judgement("unsupported", why)
    return Judgement(
        "pass", Text(f"{len(results)} of {len(results)} right", f"{len(results)} 处全部正确"), 0.0
    )


def _failed(pack: Pack, wrong: Sequence[Finding]) -> Judgement:
    first = wrong[0]
    place = None if first.at is None else Place(node=first.at.node, op_type=first.at.op_type)
    more = f" (and at {len(wrong) - 1} more places)" if len(wrong) > 1 else ""
    zh = f"（另有 {len(wrong) - 1} 处）" if len(wrong) > 1 else ""
    return Judgement(
        "fail",
        Text(first.says.en + more, first.says.zh + zh),
        float("inf"),
        place=place,
        diagnosis=tuple(_diagnoses(pack, first)),
    )


def _diagnoses(pack: Pack, finding: Finding) -> Iterator[Diagnosis]:
    mistake = pack.program.mistakes.get(finding.mistake)
    if mistake is not None:
        yield Diagnosis(mistake.id, 0.0, mistake.says)
