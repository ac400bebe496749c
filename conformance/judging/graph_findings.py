"""What a check of a graph finds at one place: right, wrong, or not read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from conformance.language.program import Text

if TYPE_CHECKING:
    from conformance.onnx.facts import Place


@dataclass(frozen=True)
class Finding:
    """One place that was looked at. `mistake` is its name in the pack, where it has one."""

    right: bool
    at: Place | None
    says: Text
    mistake: str = ""


@dataclass(frozen=True)
class Unknown:
    """One place that could not be read."""

    why: Text


Result: TypeAlias = Finding | Unknown


FINE = Text("right", "正确")


def fine(at: Place | None) -> Finding:
    """Right at a place."""
    return Finding(True, at, FINE)


def unread(what: str, zh: str, at: Place) -> Unknown:
    """Something at a place that could not be read."""
    return Unknown(
        Text(
            f"{what} at {at.node} ({at.op_type}) could not be read",
            f"未能读出 {at.node}（{at.op_type}）处的{zh}",
        )
    )
