"""A rubric: how verdicts become points, and who sees them when. A YAML file that a course writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from conformance.language.errors import Location, PackError
from conformance.language.program import Text
from conformance.pack.decode import convert, items
from conformance.pack.yaml_source import Source, read
from conformance.plan.selection import Selection, SelectionError, parse_selection
from conformance.reports.model import Claim, Graded

Visibility = Literal["visible", "hidden", "after_due_date", "after_published"]
Credit = Literal["claims", "verdicts", "all"]


class TextDocument(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A name in both languages."""

    en: str
    zh: str


class CriterionDocument(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One entry under `criteria:`."""

    name: str | TextDocument
    select: str | list[str]
    points: float
    credit: Credit = "claims"
    unsupported: Literal["nothing", "left out"] = "nothing"
    visibility: Visibility = "visible"


class SightDocument(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One entry under `visibility:`."""

    select: str | list[str]
    visibility: Visibility


class RubricDocument(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A rubric's file."""

    criteria: list[CriterionDocument]
    visibility: list[SightDocument] = []  # a struct copies it


@dataclass(frozen=True)
class Criterion:
    """Points for some claims.

    Attributes:
        credit: `claims`, each claim that holds earns its share; `verdicts`, each claim the share of
            its verdicts that hold; `all`, points only when every claim holds.
        left_out: claims that the submission does not offer count for nothing, instead of as not held.
    """

    name: Text
    select: Selection
    points: float
    credit: Credit = "claims"
    left_out: bool = False
    visibility: Visibility = "visible"

    def fraction(self, graded: Graded) -> float:
        """How much of a claim is held, from 0 to 1. A waived verdict counts as held."""
        held = [v.verdict in ("pass", "waived") for v in graded.verdicts if v.verdict != "unsupported"]
        if not held:
            return 0.0
        return sum(held) / len(held) if self.credit == "verdicts" else float(all(held))


@dataclass(frozen=True)
class Rubric:
    """Criteria, of which a claim counts for the first that it fits, and claims that are seen otherwise."""

    criteria: tuple[Criterion, ...]
    sights: tuple[tuple[Selection, Visibility], ...] = ()

    def sight(self, criterion: Criterion, claim: Claim) -> Visibility:
        """When a claim's line is shown to its author."""
        return next(
            (v for select, v in self.sights if select.includes(claim, None, "")), criterion.visibility
        )


DEFAULT = Rubric((Criterion(Text("MUST claims", "MUST 断言"), parse_selection(["level:MUST"], None), 100.0),))
"""Without a file: a hundred points, shared by all MUST claims."""


def load_rubric(path: Path) -> Rubric:
    """The rubric of a YAML file. Raises `PackError` naming the line."""
    source = read(path)
    document = convert(source, (), RubricDocument)
    if not document.criteria:
        raise PackError("a rubric needs criteria", source.at())
    criteria = []
    for i, entry in zip(items(source, "criteria"), document.criteria, strict=True):
        at = source.at("criteria", i)
        if not 0 <= entry.points < 1e9:
            raise PackError(f"{entry.points:g} points: a number from 0 is expected", at)
        name = (
            Text(entry.name, entry.name)
            if isinstance(entry.name, str)
            else Text(entry.name.en, entry.name.zh)
        )
        select = _selection(entry.select, at)
        left_out = entry.unsupported == "left out"
        criteria.append(Criterion(name, select, entry.points, entry.credit, left_out, entry.visibility))
    sights = [(_selection(s.select, _at(source, i)), s.visibility) for i, s in enumerate(document.visibility)]
    return Rubric(tuple(criteria), tuple(sights))


def _selection(said: str | Sequence[str], at: Location) -> Selection:
    try:
        return parse_selection([said] if isinstance(said, str) else list(said), None, "select")
    except SelectionError as error:
        raise PackError(str(error), at) from None


def _at(source: Source, i: int) -> Location:
    return source.at("visibility", i)
