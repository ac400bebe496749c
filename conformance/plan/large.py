"""What is asked of a target that brings very many weights along, and what is not, and why.

A whole run would read a hundred million numbers some hundred times, a third of them with the noise of 32
samples. What is left tries every layer and every kind of behaviour once; what is left out says so.
"""

from __future__ import annotations

from conformance.language.program import Text
from conformance.pack.documents import ExperimentDocument
from conformance.pack.load import cases_of
from conformance.pack.model import Case, Claim, Pack
from conformance.plan.own import Own
from conformance.plan.scenario import Scenario

ROWS = 32
"""Tokens of a case, in all sequences together, up to which its inner values are asked for."""
ONCE = frozenset({"equation", "runtime"})
"""Kinds that are judged on one case."""


def stages_are_seen(scenario: Scenario) -> bool:
    """Whether inner values are asked for: of a large target not where there are many tokens."""
    tokens = scenario.sizes.get("batch", 1) * scenario.sizes.get("query", 1)
    return not scenario.large or tokens <= ROWS


def refusal(claim: Claim, case: Case, own: Own, pack: Pack) -> Text | None:
    """Why a claim is not asked of a large target on a case; None where it is.

    Said before the case is made: it would draw weights, or be read, for nothing.
    """
    size = f"{own.numbers:,}"
    body = claim.body
    experiment = isinstance(body, ExperimentDocument)
    changed = [name for name in body.change if name not in case.given] if experiment else []
    if case.parameters or changed:
        return Text(
            f"the file holds {size} weights, and at this size no others are put in their place",
            f"该文件有 {size} 个权重，在此规模下不替换权重",
        )
    if "positions" in own.lacks and case.given.get("positions") is not None:
        return Text("the graph has no input for positions", "该计算图没有位置输入")
    if claim.kind == "holds":
        return Text(
            f"the file holds {size} weights; at this size the stages and the logits are compared with the"
            " program's, and what must hold of them is not tried beside",
            f"该文件有 {size} 个权重；在此规模下各阶段与 logits 直接与程序比较，不再另外检验其性质",
        )
    if claim.kind in ONCE:
        chosen = staged(pack, claim, case)
        if chosen.id != case.id:
            return Text(
                f"the file holds {size} weights; at this size this is graded on {chosen.id} alone",
                f"该文件有 {size} 个权重；在此规模下只在 {chosen.id} 上评测这一点",
            )
    return None


def staged(pack: Pack, claim: Claim, case: Case) -> Case:
    """The case on which all claims of a kind are judged, of those with a cache or without as `case` is."""
    for other in pack.claims.values():
        if other.kind == claim.kind and other.operation == claim.operation:
            for found in cases_of(pack, other):
                if bool(found.schedule) == bool(case.schedule):
                    return found
    return case


def note(numbers: int) -> Text:
    """What a report says of a run on a large target."""
    return Text(
        f"The file holds {numbers:,} weights. At this size inner values are compared in every layer, on the first"
        " sequence of one case; logits are held to 8 times the usual tolerance; nothing is tried that would put"
        " other weights into the graph. What else was left out says so.",
        f"该文件有 {numbers:,} 个权重。在此规模下，内部张量逐层比较，但只在一个用例的第一个序列上；logits 的容差放宽为"
        "通常的 8 倍；不做需要替换权重的检验。其他未评测之处均有说明。",
    )
