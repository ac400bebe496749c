"""Of a failure, a few lines that show it without this tool: which calls they make, and of what kind they are."""

from __future__ import annotations

from pathlib import Path

from conformance.grading import Grader
from conformance.judging.experiment import changed
from conformance.judging.observe import call_of
from conformance.plan.items import Item
from conformance.plan.scenario import Scenario
from conformance.results.records import Verdict
from conformance.results.reproduce import Reproduction, reproduction
from conformance.results.reproduce_graph import GraphFile, graph_reproduction, look
from conformance.session import Call, Offer
from conformance.targets import Target


def reproduced(
    item: Item,
    verdict: Verdict,
    grader: Grader,
    target: Target,
    offer: Offer,
    folder: Path,
    graph: GraphFile | None = None,
) -> Reproduction | None:
    """The snippet and its arrays, which will lie in `folder`; without a file where it loads none, None for no call."""
    scenario = grader.scenario(item.case, item.variant, item.dtype)
    if scenario is None:
        return None
    file = f"{item.case.id}-{item.variant.name}-{item.dtype}"
    evidence = verdict.judgement.evidence
    if graph is not None:
        return _of_graph(item, verdict, grader, scenario, folder, graph)
    return reproduction(
        _call(grader, scenario), target, offer.framework, item.dtype, folder, _named(file), evidence
    )


def _of_graph(
    item: Item, verdict: Verdict, grader: Grader, scenario: Scenario, folder: Path, graph: GraphFile
) -> Reproduction | None:
    """With onnxruntime alone; of what was read off the graph, a look at the node."""
    judgement, kind = verdict.judgement, item.claim.kind
    if kind == "graph":
        return Reproduction(look(graph, judgement.place, judgement.summary.en), "", {})
    scenarios = [scenario]
    file = f"{item.case.id}-{item.variant.name}-{item.dtype}"
    if kind == "experiment" and not item.claim.body.interleave:
        scenarios.append(changed(scenario, item.claim.body))
        file += f"-{item.claim.id}"
    calls = [_call(grader, one) for one in scenarios]
    try:
        return graph_reproduction(
            graph, calls, item.dtype, folder, _named(file), judgement.evidence, levels=kind == "runtime"
        )
    except NotImplementedError:
        return None


def _call(grader: Grader, scenario: Scenario) -> Call:
    shapes = [step.shapes for step in grader.bench.expected(scenario)]
    return call_of(scenario, tap=False, expect=shapes)


def _named(file: str) -> str:
    return f"{file}.npz".replace("/", "_")
