"""What quantised numbers keep a target from being compared with: itself, run or put another way."""

from __future__ import annotations

from conformance.language.program import Text
from conformance.pack.model import Claim


def quantised(claim: Claim, rounded: str) -> Text | None:
    """Why a claim that compares a target with itself says nothing of one whose numbers are quantised."""
    if rounded and claim.kind == "runtime" and claim.body.optimisation:
        return Text(
            "its numbers are quantised, and the runtime rounds them otherwise where it fuses operators",
            "其数值经过量化，而运行时在融合算子后舍入方式不同",
        )
    if rounded == "whole" and claim.kind == "experiment" and claim.body.same and not claim.body.twice:
        return Text(
            "its activations are quantised by one scale for all, so each number depends on all others",
            "其激活值共用一个量化尺度，因此每个数都依赖于其余所有数",
        )
    return None
