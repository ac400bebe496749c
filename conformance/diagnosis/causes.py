"""The causes of a whole run: what most of the red follows from, said once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.language.program import Text
from conformance.pack.model import RUNGS
from conformance.results.records import BROKEN, Place, Verdict, jsonable, place_line


@dataclass(frozen=True)
class Cause:
    """A cause: the mistakes that fit (told apart by nothing here), where, and what follows from it."""

    mistakes: tuple[str, ...]
    says: Text
    place: Place | None
    claims: tuple[str, ...]
    verdicts: int


def causes(verdicts: Sequence[Verdict]) -> tuple[Cause, ...]:
    """The fewest causes that explain the most, the lowest rung first; unexplained claims are left out."""
    broken = sorted((v for v in verdicts if v.judgement.verdict in BROKEN), key=lambda v: RUNGS.index(v.rung))
    left = [v for v in broken if v.judgement.diagnosis]
    found = []
    while left:
        counts: dict[str, int] = {}
        for verdict in left:
            for diagnosis in verdict.judgement.diagnosis:
                counts[diagnosis.mistake] = counts.get(diagnosis.mistake, 0) + 1
        best = max(counts, key=lambda name: (counts[name], -len(name.split(" + "))))
        mine = [v for v in left if any(d.mistake == best for d in v.judgement.diagnosis)]
        left = [v for v in left if v not in mine]
        first = mine[0].judgement.diagnosis
        # Whatever fits everywhere that the best fits cannot be told apart from it.
        alike = [
            d for d in first if all(any(o.mistake == d.mistake for o in v.judgement.diagnosis) for v in mine)
        ]
        texts = [next(d for d in first if d.mistake == best), *(d for d in alike if d.mistake != best)]
        places = [v.judgement.place for v in mine if v.judgement.place]
        place = max(places, key=lambda p: p.sure, default=None)
        claims = tuple(dict.fromkeys(v.claim for v in mine))
        found.append(Cause(tuple(d.mistake for d in texts), texts[0].says, place, claims, len(mine)))
    return tuple(found)


def sentence(
    found: Sequence[Cause], verdicts: Sequence[Verdict], tried: Collection[tuple[str, ...]] = ()
) -> Text | None:
    """`everything red follows from scale-by-model-width`, how much of it does, or that nothing that was tried fits."""
    if not found:
        return unexplained(tried) if tried else None
    broken = sum(v.judgement.verdict in BROKEN for v in verdicts)
    names = " and ".join(" or ".join(cause.mistakes) for cause in found[:3])
    zh_names = "、".join(" 或 ".join(cause.mistakes) for cause in found[:3])
    explained = sum(cause.verdicts for cause in found[:3])
    if explained == broken:
        return Text(f"everything red follows from {names}", f"所有未通过的判定都源于 {zh_names}")
    return Text(
        f"{explained} of {broken} red verdicts follow from {names}",
        f"{broken} 个未通过的判定中有 {explained} 个源于 {zh_names}",
    )


def unexplained(tried: Collection[tuple[str, ...]]) -> Text:
    """What is said where no mistake explains what came: how many were tried, alone and in pairs."""
    singles = sum(len(names) == 1 for names in tried)
    pairs = len(tried) - singles
    en, zh = f"{singles} tried", f"已尝试 {singles} 个"
    if pairs:
        en, zh = f"{en}, and {pairs} pairs", f"{zh}，另有 {pairs} 对"
    return Text(f"no known mistake fits ({en})", f"没有吻合的已知错误（{zh}）")


def cause_lines(found: Sequence[Cause]) -> list[dict[str, Any]]:
    """Causes as they stand in the end line of a result."""
    return [
        {
            "mistakes": list(cause.mistakes),
            "says": jsonable(cause.says),
            "where": place_line(cause.place) if cause.place else None,
            "claims": list(cause.claims),
            "verdicts": cause.verdicts,
        }
        for cause in found
    ]
