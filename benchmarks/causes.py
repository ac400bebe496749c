"""Naming and placing the zoo's faults: as they are, with other names in another order, and two at a time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from right_and_wrong import zoo
from zoo.pairs import Pair, named, pairs
from zoo.rename import rename
from zoo.zoo_grading import WRONG, broken, lines_accepted, wrong_file

from conformance.diagnosis.causes import Cause, causes
from conformance.results.records import Verdict

DEPTHS = ("taps", "operations", "logits")


@dataclass(frozen=True)
class Told:
    """What a wrong adapter is told: whether its mistake is named first, by depth (None: not seen there)."""

    name: str
    nameable: bool
    named: bool
    depths: dict[str, bool | None]
    placed: bool
    wrong: bool
    seconds: float
    plain: float


@dataclass(frozen=True)
class PairTold:
    """Which of two mistakes were named."""

    names: tuple[str, str]
    found: int


def told(name: str, renamed: bool) -> Told:
    """Grade a wrong adapter with and without diagnosis."""
    entry = WRONG[name]
    text, lines = wrong_file(name).read_text(encoding="utf-8"), lines_accepted(name)
    if renamed:
        new = rename(text)
        text, lines = new.text, {new.lines[line] for line in lines if line in new.lines}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "submission.py"
        path.write_text(text, encoding="utf-8")
        begun = time.perf_counter()
        zoo().verdicts(path)
        between = time.perf_counter()
        red = list(broken(zoo().verdicts(path, diagnosed=True)))
        ended = time.perf_counter()
    first = next(iter(causes(red)), None)
    place = first.place if first else next((v.judgement.place for v in red if v.judgement.place), None)
    nameable = entry.get("named", True)
    right = first is not None and entry["mistake"] in first.mistakes
    return Told(
        name,
        nameable,
        right,
        {depth: at_depth(depth, red, entry["mistake"]) for depth in DEPTHS} if nameable else {},
        place is not None and place.line in lines,
        first is not None and not right,
        ended - between,
        between - begun,
    )


def at_depth(depth: str, red: Sequence[Verdict], mistake: str) -> bool | None:
    """Whether the mistake is named from what is seen at one depth alone; None where nothing fails there."""
    mine = [v for v in red if v.judgement.verdict == "fail" and depth_of(v) == depth]
    found: Sequence[Cause] = causes(mine)
    return (bool(found) and mistake in found[0].mistakes) if mine else None


def depth_of(verdict: Verdict) -> str:
    """From taps, from an operation's output, or from logits alone."""
    if zoo().pack.claims[verdict.claim].kind == "equation":
        return "taps"
    return "logits" if verdict.rung in ("model", "decode") else "operations"


def pair_told(pair: Pair) -> PairTold:
    """Grade two mistakes at a time."""
    return PairTold(pair.names, len(set(pair.names) & named(zoo().pack, pair)))


def sample(count: int) -> list[Pair]:
    """Pairs of mistakes, the same ones each time."""
    return list(pairs(zoo().pack, count, seed=1))


def lines(found: Sequence[Told], title: str) -> list[str]:
    """(e) to (h)."""
    if not found:
        return []
    asked = [t for t in found if t.nameable]
    shares = [f"{sum(t.named for t in asked)} of {len(asked)} in all"]
    for depth in DEPTHS:
        seen = [t.depths[depth] for t in asked if t.depths.get(depth) is not None]
        shares.append(f"{sum(map(bool, seen))} of {len(seen)} from {depth}")
    more = sorted(t.seconds - t.plain for t in found)
    taken = f"median {more[len(more) // 2]:.2f}, worst {more[-1]:.2f}"
    parts = [
        f"{title}: named at rank 1 {', '.join(shares)}",
        f"right line {sum(t.placed for t in found)} of {len(found)}",
        f"wrong names {sum(t.wrong for t in found)}",
        f"seconds more than without diagnosis: {taken}.",
    ]
    result = ["; ".join(parts), ""]
    result += [f"- not named: {t.name}" for t in asked if not t.named]
    return result + [f"- line not found: {t.name}" for t in found if not t.placed]


def pair_lines(found: Sequence[PairTold]) -> list[str]:
    """How many of the pairs are named, both or one."""
    if not found:
        return []
    both, one = (sum(p.found == n for p in found) for n in (2, 1))
    missing = [f"- not both: {' and '.join(p.names)}" for p in found if p.found < 2]
    return [
        f"Two mistakes at a time: both named in {both} of {len(found)} pairs, one in {one}.",
        "",
        *missing,
    ]
