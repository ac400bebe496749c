"""What every report shows, read once from a results file: the claims, the ladder, the cause.

A results file may be cut off, newer than this tool, or written by somebody else, so nothing in it is
taken for granted: a field that is missing or of another type is shown as if it were empty, and all
text is bounded and made harmless (`lines`). A renderer has but to escape its own markup.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from conformance.language.program import Text
from conformance.pack.model import RUNGS
from conformance.results.records import BROKEN, VERDICTS, Profile

NOTHING = Text("", "")


@dataclass(frozen=True)
class Claim:
    """What a claim says. Of one whose line is missing, only what its verdicts tell."""

    id: str
    rung: str
    level: str
    statements: tuple[str, ...]
    question: str = ""
    title: Text = NOTHING
    says: Text = NOTHING
    equation: str = ""
    tensors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    check: str = ""

    @property
    def formula(self) -> str:
        """What to call its equation: a golden's is the call that gave the tensor."""
        return "call" if self.check == "golden" else "equation"


@dataclass(frozen=True)
class Evidence:
    """The worst element. `index` names an axis and a position each, as in `head 1, query 2, key 3`.

    `spot` is the same as numbers; `arrays` is what the file holds of the tensors, unchecked (`pictures`).
    """

    tensor: str
    index: str
    got: str
    expected: str
    tolerance: str
    spot: Mapping[str, int] = field(default_factory=dict)
    arrays: object = None


@dataclass(frozen=True)
class Where:
    """A place in the target: a line of its source, or a node of its graph."""

    file: str = ""
    line: str = ""
    text: str = ""
    variable: str = ""
    node: str = ""
    op_type: str = ""
    expected: str = ""
    """The tensor that the variable should have been, or is where it is right."""
    last_right: Where | None = None

    @property
    def at(self) -> str:
        """`file.py:41`; '' for a node."""
        return f"{self.file}:{self.line}" if self.file and self.line else self.file


@dataclass(frozen=True)
class Mistake:
    """A mistake that explains what came."""

    id: str
    says: Text
    fit: str


@dataclass(frozen=True)
class Verdict:
    """One verdict line."""

    claim: str
    rung: str
    level: str
    case: str
    variant: str
    dtype: str
    verdict: str
    summary: Text
    margin: float | None
    close: bool
    diagnosis: tuple[Mistake, ...]
    where: Where | None
    evidence: Evidence | None
    reproduce: str
    consequence_of: str
    seconds: float = 0.0
    profiles: tuple[Profile, ...] = ()

    @property
    def broken(self) -> bool:
        """Whether the target is at fault."""
        return self.verdict in BROKEN

    @property
    def off(self) -> str:
        """The margin in words of a number: `120,000`; '' where there is none."""
        if self.margin is None:
            return ""
        if math.isfinite(self.margin) and 1e3 <= self.margin < 1e9:
            return f"{float(f'{self.margin:.3g}'):,.0f}"
        return "NaN" if math.isnan(self.margin) else f"{self.margin:.3g}".replace("inf", "∞")

    @property
    def occasion(self) -> str:
        """`case, variant, dtype`, without what is not declared."""
        return ", ".join(part for part in (self.case, self.variant, self.dtype) if part)


@dataclass(frozen=True)
class Graded:
    """A claim with all its verdicts, in the order of the run."""

    claim: Claim
    verdicts: tuple[Verdict, ...]

    @property
    def broken(self) -> tuple[Verdict, ...]:
        """Those at which the target is at fault."""
        return tuple(v for v in self.verdicts if v.broken)

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of verdicts by verdict."""
        return _counts(self.verdicts)

    @property
    def verdict(self) -> str:
        """The one verdict that stands for all: the gravest."""
        return next((v for v in GRAVITY if any(line.verdict == v for line in self.verdicts)), "unsupported")

    @property
    def worst(self) -> Verdict:
        """The broken verdict with the largest margin; of several, the one that shows the most."""
        return max(self.broken or self.verdicts, key=_weight)

    @property
    def diagnosis(self) -> tuple[Mistake, ...]:
        """The mistakes that explain it: those of the worst verdict, else of any."""
        return next((v.diagnosis for v in (self.worst, *self.broken) if v.diagnosis), ())

    @property
    def where(self) -> Where | None:
        """The place in the target's source: that of the worst verdict, else of any."""
        return next((v.where for v in (self.worst, *self.broken) if v.where), None)

    @property
    def reproduce(self) -> str:
        """The lines that show it without this tool."""
        return next((v.reproduce for v in (self.worst, *self.broken) if v.reproduce), "")

    @property
    def change(self) -> bool:
        """Whether an equation says what a tensor should have been."""
        evidence = self.worst.evidence
        return bool(
            self.claim.check in ("", "equation") and self.claim.equation and evidence and evidence.tensor
        )

    @property
    def consequence_of(self) -> str:
        """What it only suffers from, when each of its broken verdicts does."""
        return self.worst.consequence_of if all(v.consequence_of for v in self.broken) else ""


GRAVITY = ("fail", "error", "timeout", "waived", "pass", "unsupported")
"""Verdicts, the one that stands for a claim first: a claim that passed somewhere was not unsupported."""


@dataclass(frozen=True)
class Rung:
    """A rung of the ladder: verdicts by verdict, and whether it is the first broken one."""

    name: str
    counts: Mapping[str, int]
    first_broken: bool

    @property
    def empty(self) -> bool:
        """Whether nothing on it got a verdict."""
        return not any(self.counts.values())


@dataclass(frozen=True)
class Reason:
    """Claims that share a reason for not being graded (or for being waived)."""

    says: Text
    claims: tuple[str, ...]
    rungs: tuple[str, ...]


@dataclass(frozen=True)
class Waiver:
    """Failures that somebody accepted, until when and why; `state` says what came of it."""

    claim: str
    reason: str
    expires: str
    state: str
    verdicts: str


@dataclass(frozen=True)
class Cause:
    """Mistakes that nothing here tells apart, what they are, where, and the claims that follow from them."""

    mistakes: tuple[str, ...]
    says: Text
    where: Where | None
    claims: tuple[str, ...]

    @property
    def name(self) -> str:
        """`scale-by-model-width`, or several that fit alike."""
        return " / ".join(self.mistakes)


@dataclass(frozen=True)
class Report:
    """All that a report shows. `conforms` is None for an interrupted run."""

    conforms: bool | None
    sentence: Text
    ladder: tuple[Rung, ...]
    first_broken: Mapping[str, str]
    graded: tuple[Graded, ...]
    problems: tuple[Graded, ...]
    causes: tuple[Cause, ...]
    follows: Mapping[str, str]
    """Broken claims that need no look of their own, and what they follow from."""
    causation: Text
    """How much of it follows from which causes."""
    alike: Text
    """In how many claims the error comes back that the first one shows; empty where it shows none."""
    refused: tuple[Reason, ...]
    waived: tuple[Reason, ...]
    waivers: tuple[Waiver, ...]
    required: tuple[str, ...]
    facts: Mapping[str, str]
    environment: Mapping[str, str]
    printed: str
    notes: tuple[Text, ...]

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of verdicts by verdict."""
        return {name: sum(rung.counts[name] for rung in self.ladder) for name in VERDICTS}

    @property
    def first(self) -> Graded | None:
        """The claim to look at first: of the first cause, if one is named; else what was read off a graph's node."""
        caused = [p for p in self.problems if self.causes and p.claim.id in self.causes[0].claims]
        read = [p for p in self.problems if p.claim.rung == "graph" and p.where]
        return next(iter([*caused, *read, *self.problems]), None)

    @property
    def where(self) -> Where | None:
        """The place to look at first."""
        cause = self.causes[0].where if self.causes else None
        return cause or (self.first.where if self.first else None)


def _counts(verdicts: Sequence[Verdict]) -> dict[str, int]:
    found = Counter(v.verdict for v in verdicts)
    return {name: found[name] for name in VERDICTS}


def _weight(verdict: Verdict) -> tuple[float, bool, bool, bool]:
    margin = -1.0 if verdict.margin is None else math.inf if math.isnan(verdict.margin) else verdict.margin
    return margin, verdict.evidence is not None, bool(verdict.diagnosis), bool(verdict.reproduce)


def position(rung: str) -> int:
    """Where a rung stands on the ladder; one that this tool does not know stands at its end."""
    return RUNGS.index(rung) if rung in RUNGS else len(RUNGS)
