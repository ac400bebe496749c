"""What a run says, as data: the lines of `results.jsonl`. Every report is made of these alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.language.program import Text

SCHEMA = 1
VERDICTS = ("pass", "fail", "error", "timeout", "unsupported", "waived")
GRADED = ("pass", "fail")
BROKEN = ("fail", "error", "timeout")


@dataclass(frozen=True)
class Place:
    """Where in the target's own source: file, line, its text, and the variable if one is known.

    In a graph it is a node and its operator instead.

    Attributes:
        expected: the tensor that the variable should have been, or for a right one is.
        last_right: where the last tensor was made that was still right.
        sure: how certain it is; of several places for one cause the surest is shown.
    """

    file: str = ""
    line: int | None = None
    text: str = ""
    variable: str = ""
    expected: str = ""
    last_right: Place | None = None
    sure: int = 0
    node: str = ""
    op_type: str = ""


@dataclass(frozen=True)
class Evidence:
    """The worst element: which tensor, where in it, what came and what was expected."""

    tensor: str
    index: Mapping[str, int]
    got: float | bool | str
    expected: float | bool | str
    tolerance: float
    arrays: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Diagnosis:
    """A mistake that explains what came, and how well: its fit in tolerances."""

    mistake: str
    fit: float
    says: Text


@dataclass(frozen=True)
class Profile:
    """How an error runs along the layers of a model, or along the positions of a sequence.

    Attributes:
        over: 'layer' or 'position'.
        tensors: one for each layer, in the order of the model; of positions, the one that is followed.
        margins: the worst error in tolerances at each; None where nothing is compared.
        local: each on the target's own tensors before it, so that no error is handed on.
        calls: of positions, the lengths of the calls that share a cache.
        at_once: of positions, the margins of the same sequence in one call.
    """

    over: str
    tensors: tuple[str, ...]
    margins: tuple[float | None, ...]
    local: bool = False
    calls: tuple[int, ...] = ()
    at_once: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Judgement:
    """What a kind of claim found on one scenario. `margin` is the worst error in tolerances."""

    verdict: str
    summary: Text
    margin: float | None = None
    evidence: Evidence | None = None
    place: Place | None = None
    reproduce: str = ""
    seconds: float = 0.0
    diagnosis: tuple[Diagnosis, ...] = ()
    profiles: tuple[Profile, ...] = ()

    @property
    def close(self) -> bool:
        """Between half and twice the tolerance: neither side should be too sure."""
        return self.margin is not None and 0.5 <= self.margin <= 2


@dataclass(frozen=True)
class Verdict:
    """A judgement, and what it is about."""

    claim: str
    rung: str
    level: str
    statements: tuple[str, ...]
    case: str
    variant: str | None
    dtype: str
    judgement: Judgement


def jsonable(value: Any) -> Any:
    """Plain JSON data: texts as {en, zh}, and non-finite numbers as strings."""
    match value:
        case Text(en=en, zh=zh):
            return {"en": en, "zh": zh}
        case bool() | str() | int() | None:
            return value
        case float():
            if math.isfinite(value):
                return value
            return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
        case Mapping():
            return {str(key): jsonable(item) for key, item in value.items()}
        case Sequence():
            return [jsonable(item) for item in value]
        case _ if hasattr(value, "tolist"):
            return jsonable(value.tolist())
    raise TypeError(f"{type(value).__name__} does not go into a result")


def place_line(place: Place) -> dict[str, Any]:
    """A place as it stands in a result: a line of source, or a node."""
    if place.node:
        return {"node": place.node, "op_type": place.op_type}
    fields = {"file": place.file, "line": place.line, "text": place.text, "variable": place.variable}
    fields["expected"] = place.expected
    shown: dict[str, Any] = {name: value for name, value in fields.items() if value not in ("", None)}
    if place.last_right is not None:
        shown["last_right"] = place_line(place.last_right)
    return shown


def verdict_line(verdict: Verdict) -> dict[str, Any]:
    """A verdict as one line of `results.jsonl`."""
    judgement = verdict.judgement
    place, evidence = judgement.place, judgement.evidence
    profiles = {"profiles": [profile_line(p) for p in judgement.profiles]} if judgement.profiles else {}
    return {
        "kind": "verdict",
        "claim": verdict.claim,
        "rung": verdict.rung,
        "level": verdict.level,
        "statements": list(verdict.statements),
        "case": verdict.case,
        "variant": verdict.variant,
        "dtype": verdict.dtype,
        "verdict": judgement.verdict,
        "summary": jsonable(judgement.summary),
        "margin": jsonable(judgement.margin),
        "close": judgement.close,
        "diagnosis": [
            jsonable({"mistake": d.mistake, "fit": d.fit, "says": d.says}) for d in judgement.diagnosis
        ],
        "where": place_line(place) if place else None,
        "evidence": jsonable(vars(evidence)) if evidence else None,
        "reproduce": judgement.reproduce,
        "seconds": round(judgement.seconds, 6),
        **profiles,
    }


def profile_line(profile: Profile) -> dict[str, Any]:
    """A profile as it stands in a result; what it has not is left out."""
    line: dict[str, Any] = {
        "over": profile.over,
        "tensors": list(profile.tensors),
        "margins": _short(profile.margins),
        "local": profile.local,
    }
    if profile.calls:
        line["calls"] = list(profile.calls)
    if profile.at_once:
        line["at_once"] = _short(profile.at_once)
    return line


def _short(margins: Sequence[float | None]) -> list[Any]:
    """Three digits are enough for a chart."""
    return [jsonable(float(f"{m:.3g}")) if m is not None else None for m in margins]
