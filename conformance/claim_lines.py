"""What a report needs to know of a claim: its line in `results.jsonl`, and its formula."""

from __future__ import annotations

from typing import Any

from conformance.judging.kinds import KINDS
from conformance.pack.model import Claim, Pack
from conformance.results.records import jsonable


def claim_line(pack: Pack, claim: Claim) -> dict[str, Any]:
    """What a report needs to know of a claim."""
    operation = pack.operations[claim.operation]
    tensors = {}
    for name in sorted(KINDS[claim.kind].reads(claim)):
        if name in operation.outputs:
            tensors[name] = list(operation.outputs[name])
        elif name in pack.program.tensors:
            tensors[name] = list(pack.program.tensors[name].axes)
    return {
        "kind": "claim",
        "id": claim.id,
        "rung": claim.rung,
        "level": claim.level,
        "statements": list(claim.statements),
        "question": claim.question,
        "title": jsonable(claim.title),
        "says": jsonable(claim.says),
        "equation": equation_of(pack, claim),
        "tensors": tensors,
        "source": claim.source,
        "operation": claim.operation,
        "check": claim.kind,
    }


def equation_of(pack: Pack, claim: Claim) -> str | None:
    """The formula that a claim is about, as the pack writes it."""
    if claim.kind == "holds":
        return str(claim.body)
    if claim.kind == "equation":
        tensor = pack.program.tensors[str(claim.body)]
        equation = pack.program.functions[tensor.functions[0]].equation(tensor.name)
        if equation is not None:
            return "; ".join(
                f"{tensor.name} = {e}" + (f" ({key})" if key else "")
                for key, e in equation.alternatives.items()
            )
    if claim.kind == "golden":
        operation = pack.operations[claim.operation]
        return f"{claim.body} = {operation.signature}"
    return None
