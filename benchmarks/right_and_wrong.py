"""Grading the zoo: what comes of each right adapter on fresh seeds, and of each wrong one."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from margins import UNBOUNDED

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # the zoo and how to grade it

from zoo.zoo_grading import RIGHT, WRONG, Zoo, right_file, wrong_file  # noqa: E402 -- the line above finds it

from conformance.results.records import BROKEN, Verdict  # noqa: E402 -- with its neighbour

TORCH = ROOT / "tests" / "torch_models"


@dataclass(frozen=True)
class Margin:
    """A margin and where it was met."""

    margin: float
    claim: str
    case: str
    file: str
    dtype: str
    seed: int


@dataclass
class Tally:
    """What came of right implementations. Verdicts without an error to measure have no margin."""

    adapters: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    margins: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    statistics: list[float] = field(default_factory=list)
    worst: dict[str, Margin] = field(default_factory=dict)
    alarms: dict[str, list[str]] = field(default_factory=dict)
    seeds: dict[int, int] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Take in what another process found."""
        self.adapters += other.adapters
        self.verdicts = dict(Counter(self.verdicts) + Counter(other.verdicts))
        for key, values in other.margins.items():
            self.margins.setdefault(key, []).extend(values)
        self.statistics += other.statistics
        for what, where in other.alarms.items():
            self.alarms.setdefault(what, []).extend(where)
        self.seeds = dict(Counter(self.seeds) + Counter(other.seeds))
        for found in other.worst.values():
            self._worst(found)

    def take(self, verdict: Verdict, kind: str, file: str, seed: int) -> None:
        """One verdict on a right implementation."""
        judgement = verdict.judgement
        self.verdicts[judgement.verdict] = self.verdicts.get(judgement.verdict, 0) + 1
        if judgement.verdict in BROKEN:
            what = f"{verdict.level} {verdict.claim} on {verdict.case} in {verdict.dtype}, {file}"
            where = f"seed {seed}, {verdict.variant}: {judgement.verdict}, {judgement.summary.en[:200]}"
            self.alarms.setdefault(what, []).append(where)
            return
        margin = judgement.margin
        if margin is None or (margin == 0 and judgement.evidence is None):
            return
        if kind == "statistic":
            self.statistics.append(margin)
        else:
            self.margins.setdefault((verdict.dtype, verdict.rung), []).append(margin)
        self._worst(Margin(margin, verdict.claim, verdict.case, file, verdict.dtype, seed))

    def _worst(self, found: Margin) -> None:
        known = self.worst.get(found.claim)
        if known is None or found.margin > known.margin:
            self.worst[found.claim] = found


@dataclass(frozen=True)
class Caught:
    """What became of a wrong adapter: its best catch, and whether a claim about its fault saw it."""

    name: str
    rung: str
    margin: float
    claim: str
    aimed: bool


_ZOO: list[Zoo] = []


def zoo() -> Zoo:
    """The pack, read once in each process."""
    if not _ZOO:
        _ZOO.append(Zoo.opened())
    return _ZOO[0]


def torch_files() -> list[Path]:
    """The adapters of PyTorch's and other libraries' own models, and models written in PyTorch."""
    libraries = sorted(p for p in TORCH.glob("*.py") if not p.name.startswith(("_", "test_", "conftest")))
    return libraries + sorted((TORCH.parent / "torch_zoo" / "right").glob("*.py"))


def right_files(which: Sequence[str]) -> list[Path]:
    """Right adapters: of the zoo, of libraries, or both."""
    zoo_files = [right_file(name) for name in RIGHT] if "zoo" in which else []
    return zoo_files + (torch_files() if "torch" in which else [])


def right(seed: int, paths: Sequence[Path], dtypes: Sequence[str], until: float) -> Tally:
    """Grade right adapters at one seed, as many as there is time for (`time.monotonic()`).

    Their order differs from seed to seed, so that too little time leaves no adapter out.
    """
    tally = Tally()
    order = list(paths)
    random.Random(seed).shuffle(order)
    for path in order:
        if time.monotonic() > until:
            break
        verdicts = zoo().verdicts(path, seed=seed, dtypes=dtypes)
        tally.adapters += 1
        tally.seeds[seed] = tally.seeds.get(seed, 0) + 1
        for verdict in verdicts:
            tally.take(verdict, zoo().pack.claims[verdict.claim].kind, path.stem, seed)
    return tally


def wrong(name: str) -> Caught:
    """Grade a wrong adapter in float32, at seed 0."""
    about = WRONG[name]
    red = [
        v
        for v in zoo().verdicts(wrong_file(name), dtypes=["float32"])
        if v.judgement.verdict in BROKEN and (v.level == "MUST" or about.get("only") == "SHOULD")
    ]
    margins = [(UNBOUNDED if v.judgement.margin is None else v.judgement.margin, v.claim) for v in red]
    margin, claim = max(margins, default=(0.0, ""))
    aimed = any(v.claim in about["claims"] for v in red)
    return Caught(name, about["level"], margin, claim, aimed)


def wrong_names() -> list[str]:
    """Every wrong adapter."""
    return list(WRONG)
