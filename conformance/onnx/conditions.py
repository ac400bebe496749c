"""What could not be read of a graph that is graded all the same, and how far its tables go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.onnx import variant
from conformance.onnx.declaring import FAMILIAR, foreign
from conformance.onnx.fused import QUANTISED
from conformance.onnx.structure import Structure

BY_ONE_SCALE = frozenset({"DynamicQuantizeLinear", "DynamicQuantizeMatMul"})
"""Operators whose rounding of each number depends on the largest of all."""
UNREAD: Mapping[str, Any] = {
    "norm": "layer_norm", "norm_placement": "pre", "position": "none", "ffn": "relu", "bias": "none",
    "causal": True,
}  # fmt: skip
"""What has to be read of a variant; in place of what was not, this: it is compared with nothing."""


def unread(structure: Structure, names: Mapping[str, Any]) -> list[str]:
    """What of the variant could not be read, and is not told: enough to compare the model with itself alone."""
    told = names.get("variant")
    if isinstance(told, str):
        return []
    choices = {**variant.choices(structure), "causal": True, **(told or {})}
    absent = [name for name in UNREAD if choices.get(name) is None]
    if choices.get("ffn") is not None and choices["ffn"] not in FAMILIAR and "unknown" in choices["ffn"]:
        absent.append("ffn")
    if not structure.attentions:
        absent.insert(0, "attention")
    elif told is None:
        absent += _unread_of_all(structure)
    reasons = [
        f"{name} (once)" if n == 1 else f"{name} ({n} times)"
        for name, n in sorted(structure.walk.partial.missing.items())
    ]
    why = f": {', '.join(reasons[:4])} {'is' if len(reasons) == 1 else 'are'} not read" if reasons else ""
    return [f"its {', '.join(absent)} could not be read{why}"] if absent else []


def _unread_of_all(structure: Structure) -> list[str]:
    """What could be read of no attention at all: then nothing says that the document's formula is meant."""
    masks = [a.visibility for a in structure.attentions]
    found = []
    if all(seen.kind == "unknown" and not seen.example for seen in masks):
        found.append("mask")
    if all(a.scale is None and a.scale_how == "unknown" for a in structure.attentions):
        found.append("scale")
    return found


def reasons(structure: Structure, names: Mapping[str, Any]) -> list[str]:
    """Why a model is not compared with the document's, the deepest reason first."""
    lost, other = unread(structure, names), foreign(structure)
    return [*lost, *other] if structure.walk.partial.missing else [*other, *lost]


def rows(structure: Structure) -> int | None:
    """How many positions the rotation's tables have, where the graph holds them; None: any."""
    found = []
    for node in structure.walk.graph:
        places = {"GroupQueryAttention": 7, "RotaryEmbedding": 1 if node.domain in ("", "ai.onnx") else 2}
        place = places.get(node.op_type)
        table = node.inputs[place] if place is not None and len(node.inputs) > place else None
        if node.op_type in ("Gather", "GatherND") and node.inputs[1] is not None:
            known = structure.walk.partial.known(node.inputs[1])
            counts = known is not None and known.size > 1 and known.min() != known.max()
            by_row = node.op_type == "Gather" or (known is not None and known.shape[-1] == 1)
            table = node.inputs[0] if counts and by_row else None
        shape = structure.walk.partial.shape(table)
        if table is not None and table in structure.walk.fixed and shape is not None and len(shape) == 2:
            learned = structure.embedding is not None and structure.embedding.positions is not None
            found.append(shape[0] - (variant.rows_before(structure) if learned else 0))
    return min(found) if found else None


def rounded(structure: Structure) -> str:
    """`whole` where activations are quantised by one scale for all of them, `weights` for other quantisation, else nothing."""
    used = {node.op_type for node in structure.walk.graph}
    if used & BY_ONE_SCALE:
        return "whole"
    return "weights" if used & QUANTISED else ""
