"""Can verdicts be trusted? Mistakes caught, false alarms, and the gap between right and wrong.

    python benchmarks/verdicts.py                       # 3 fresh seeds
    python benchmarks/verdicts.py --seeds 50 --minutes 60 --adapters zoo --adapters torch --write

Prints (a) the share of the zoo's and the pack's mistakes that are caught, (b) the false alarms over
all right implementations × dtypes × fresh seeds, (c) the margins of both, (d) seconds, and of the
zoo's faults, as they are, renamed and two at a time: (e) causes named at rank 1, (f) right lines,
(g) wrong names, (h) seconds that diagnosis takes. With
`--write`, docs/verdicts.md gets the tables and docs/verdicts.svg the picture. With `--keep FILE`,
what one run measured stands beside what a later one measures, part by part.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):  # before NumPy is imported
    os.environ.setdefault(_name, "1")

from causes import PairTold, Told, lines, pair_lines, pair_told, sample  # noqa: E402 -- as above
from causes import told as told_cause  # noqa: E402 -- as above
from margins import RUNGS, Spread, picture, shown, table  # noqa: E402 -- as above
from right_and_wrong import ROOT, Caught, Tally, right, right_files, wrong, wrong_names  # noqa: E402 -- as above

from conformance.locations import bundled  # noqa: E402 -- as above
from conformance.selftest import EXPOSED, selftest  # noqa: E402 -- as above

FIRST_SEED = 1_000_000  # far from those that tests fix
PARTS = ("right", "wrong", "pack", "causes")
PAIRS = 20
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"


@dataclass(frozen=True)
class Exposed:
    """A mistake of the pack in one form: by how many tolerances it is seen at best."""

    name: str
    form: str
    margin: float
    red: bool


@dataclass
class Measured:
    """Everything that the benchmark found, and how long each part took."""

    rights: int = 0
    tally: Tally | None = None
    caught: list[Caught] = field(default_factory=list)
    pack: list[Exposed] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    renamed: list[Told] = field(default_factory=list)
    pairs: list[PairTold] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


def measure(given: argparse.Namespace) -> Measured:
    """Run the parts asked for."""
    kept: Path | None = given.keep
    found = msgspec.msgpack.decode(kept.read_bytes(), type=Measured) if kept and kept.exists() else Measured()
    with ProcessPoolExecutor(given.jobs) as pool:
        if "wrong" in given.parts:
            begun = time.monotonic()
            found.caught = list(pool.map(wrong, wrong_names()))
            found.seconds["wrong adapters"] = time.monotonic() - begun
        if "causes" in given.parts:
            begun = time.monotonic()
            names = wrong_names()
            found.told = list(pool.map(told_cause, names, [False] * len(names)))
            found.renamed = list(pool.map(told_cause, names, [True] * len(names)))
            found.pairs = list(pool.map(pair_told, sample(PAIRS)))
            found.seconds["causes"] = time.monotonic() - begun
        if "right" in given.parts:
            begun = time.monotonic()
            until = begun + 60 * given.minutes
            paths = right_files(given.adapters)
            found.rights, found.tally = len(paths), Tally()
            seeds = range(given.first, given.first + given.seeds)
            for work in [pool.submit(right, seed, paths, given.dtype, until) for seed in seeds]:
                found.tally.add(work.result())
            found.seconds["right adapters"] = time.monotonic() - begun
    if "pack" in given.parts:
        begun = time.monotonic()
        report = selftest(bundled("spec") / "forward-pass", jobs=given.jobs)
        found.pack = [Exposed(t.name, t.form, t.margin, bool(t.catches)) for t in report.trials]
        found.seconds["mistakes of the pack"] = time.monotonic() - begun
    if kept:
        kept.write_bytes(msgspec.msgpack.encode(found))
    return found


def caught_lines(found: Measured) -> list[str]:
    """(a): how many mistakes are caught, and which are not."""
    lines = []
    if found.caught:
        n, red = len(found.caught), [c for c in found.caught if c.margin > 0]
        aimed = sum(c.aimed for c in found.caught)
        lines.append(
            f"Wrong adapters of the zoo: {len(red)} of {n} caught, {aimed} by a claim that is about the fault."
        )
        lines += ["", *(f"- not caught: {c.name}" for c in found.caught if c not in red)]
        lines += [f"- by other claims only: {c.name}, {c.claim}" for c in red if not c.aimed]
    if found.pack:
        trials, hidden = found.pack, [t for t in found.pack if t.margin < EXPOSED]
        red_trials = sum(t.red for t in trials)
        lines.append(
            f"Mistakes of the pack, in all their forms: {red_trials} of {len(trials)} caught, "
            f"{len(trials) - len(hidden)} by {EXPOSED:g} tolerances or more."
        )
        lines += [f"- {t.name} ({t.form}): {t.margin:.3g}" for t in hidden]
    return lines


def alarm_lines(found: Measured) -> list[str]:
    """(b): false alarms, and over how much."""
    tally = found.tally
    if tally is None:
        return []
    whole = sum(count == found.rights for count in tally.seeds.values())
    verdicts = sum(tally.verdicts.values())
    counts = ", ".join(
        f"{count:,} {name}" for name, count in sorted(tally.verdicts.items(), key=lambda e: -e[1])
    )
    lines = [
        f"False alarms: {sum(map(len, tally.alarms.values()))} in {verdicts:,} verdicts ({counts}).",
        "",
        (
            f"{found.rights} right adapters at {len(tally.seeds)} fresh seeds, {whole} of them complete: "
            f"{tally.adapters:,} gradings."
        ),
        "",
    ]
    return lines + [f"- {len(where)} × {what}, first at {where[0]}" for what, where in tally.alarms.items()]


def spreads(found: Measured, dtype: str) -> dict[str, Spread]:
    """Margins by rung; wrong ones, which are graded in float32, stand beside the right of that dtype."""
    result = {rung: Spread() for rung in RUNGS}
    margins = found.tally.margins if found.tally else {}
    for (of, rung), values in margins.items():
        if of == dtype:
            result.setdefault(rung, Spread()).right += values
    if dtype == "float32":
        for caught in found.caught:
            result.setdefault(caught.rung, Spread()).wrong.append(caught.margin)
    whole = Spread(
        [m for s in result.values() for m in s.right], [m for s in result.values() for m in s.wrong]
    )
    if dtype == "float32" and found.pack:
        pack = [t.margin for t in found.pack]
        whole.wrong += pack
        result["pack's mistakes"] = Spread([], pack)
    return {**{name: s for name, s in result.items() if s.right or s.wrong}, "all": whole}


def margin_lines(found: Measured) -> list[str]:
    """(c): the distribution, by dtype and rung."""
    head = ["", "verdicts", "median", "99 %", "worst right", "mildest wrong", "factor"]
    lines = []
    for dtype in ("float32", "float64", "float16", "bfloat16"):
        by_rung = spreads(found, dtype)
        if by_rung["all"].right or by_rung["all"].wrong:
            lines += [
                f"Margins in {dtype}:",
                "",
                table(head, [[name, *s.row()] for name, s in by_rung.items()]),
                "",
            ]
    if found.caught:
        mild = sorted(found.caught, key=lambda c: c.margin)[:10]
        lines += ["Mildest wrong adapters, by their best catch:", ""]
        lines += [table(["", "margin"], [[f"{c.name}: {c.claim}", shown(c.margin)] for c in mild]), ""]
    return lines


def worst_lines(found: Measured, count: int = 20) -> list[str]:
    """The claims on which a right implementation came nearest to its tolerance."""
    if found.tally is None:
        return []
    worst = sorted(found.tally.worst.values(), key=lambda m: -m.margin)[:count]
    rows = [[w.claim, w.case, w.file, w.dtype, str(w.seed), f"{w.margin:.3f}"] for w in worst]
    lines = [
        "Worst margins of right implementations, by claim:",
        "",
        table(["claim", "case", "file", "dtype", "seed", "margin"], rows),
    ]
    if found.tally.statistics:
        lines += [
            "",
            (
                f"Statistics ({len(found.tally.statistics):,} verdicts, against their sampling error): "
                f"worst {max(found.tally.statistics):.3f}."
            ),
        ]
    return lines


def told(found: Measured) -> str:
    """All of it."""
    seconds = ", ".join(f"{name} {value:,.0f}" for name, value in found.seconds.items())
    sections = [caught_lines(found), alarm_lines(found), margin_lines(found), worst_lines(found)]
    sections += [
        lines(found.told, "Causes"),
        lines(found.renamed, "Causes, renamed"),
        pair_lines(found.pairs),
    ]
    sections.append([f"Seconds: {seconds}."])
    return "\n\n".join("\n".join(s).strip() for s in sections if s)


def written(text: str, found: Measured) -> None:
    """Put the tables between the marks in docs/verdicts.md, and the picture beside it."""
    page = ROOT / "docs" / "verdicts.md"
    old = page.read_text(encoding="utf-8")
    block = f"{BEGIN}\n{text}\n{END}"
    page.write_text(re.sub(f"{BEGIN}.*?{END}", lambda _: block, old, flags=re.DOTALL), encoding="utf-8")
    svg = picture(spreads(found, "float32"), "Margins of right and wrong implementations in float32")
    (ROOT / "docs" / "verdicts.svg").write_text(svg, encoding="utf-8")


def main() -> None:
    """Measure, print, and with `--write` put it into docs/."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3, help="fresh seeds for the right adapters")
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="the first of them")
    parser.add_argument("--minutes", type=float, default=30.0, help="no right adapter is begun after these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--dtype", action="append", default=[], help="instead of those that a file declares")
    parser.add_argument("--part", dest="parts", action="append", choices=PARTS, help="default: all")
    parser.add_argument("--adapters", action="append", choices=("zoo", "torch"), help="default: zoo")
    parser.add_argument("--keep", type=Path, help="a file of what is measured (msgpack)")
    parser.add_argument("--write", action="store_true", help="into docs/verdicts.md and docs/verdicts.svg")
    given = parser.parse_args()
    given.parts, given.adapters = given.parts or PARTS, given.adapters or ("zoo",)
    found = measure(given)
    text = told(found)
    print(text)
    if given.write:
        written(text, found)


if __name__ == "__main__":
    main()
