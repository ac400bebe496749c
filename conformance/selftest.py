"""The suite graded by its own mistakes: is every mistake caught, and does every claim catch one?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from conformance.grading import Grader, entry_point, plan
from conformance.judging.program_bench import BEHAVIOURS, NoSession, ProgramBench, offer_of
from conformance.language.arithmetic import Array, Float64
from conformance.language.errors import PackError
from conformance.language.program import Program
from conformance.pack.model import DTYPES, Pack
from conformance.plan.scenario import Scenario, Scenarios
from conformance.plan.selection import Selection
from conformance.plan.variants import Graded
from conformance.results.records import BROKEN

EXPOSED = 10.0
"""A mistake counts as exposed where some claim sees it by this many tolerances."""


@dataclass(frozen=True)
class Catch:
    """A claim that a mistake turns red: on which case and variant, by how many tolerances."""

    claim: str
    case: str
    variant: str
    margin: float
    verdict: str


@dataclass
class Report:
    """What came of it. `catches` by mistake (or behaviour); `alarms` of the true program."""

    catches: dict[str, list[Catch]] = field(default_factory=dict)
    alarms: dict[str, list[Catch]] = field(default_factory=dict)
    idle: tuple[str, ...] = ()
    blind: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def hidden(self) -> list[str]:
        """Mistakes that nothing exposes by `EXPOSED` tolerances."""
        return [name for name, found in self.catches.items() if not any(c.margin >= EXPOSED for c in found)]

    @property
    def passed(self) -> bool:
        """Whether the suite proves itself."""
        return not self.hidden() and not self.idle and not any(self.alarms.values())


def selftest(
    pack: Pack,
    dtypes: Sequence[str] = ("float32",),
    seed: int = 0,
    said: Callable[[str], None] = lambda _: None,
) -> Report:
    """Grade the true program in every dtype and every mistake in float32 (and in `dtypes`)."""
    report = Report()
    store: dict[str, Array] = {}
    scenarios = Scenarios(pack, seed)
    for dtype in DTYPES:
        report.alarms[dtype] = list(_graded(pack, pack.program, "", dtype, scenarios, store, None))
        said(f"program in {dtype}: {len(report.alarms[dtype])} alarms")
    for name, program in programs(pack):
        catches = [c for p in program for c in _graded(pack, p, "", "float32", scenarios, store, name)]
        report.catches[name] = catches
        best = max(catches, key=lambda c: c.margin, default=None)
        said(
            f"{name}: {len({c.claim for c in catches})} claims"
            + (f", best {best.claim} by {best.margin:.3g}" if best else "")
        )
    for behaviour in BEHAVIOURS:
        report.catches[behaviour] = list(
            _graded(pack, pack.program, behaviour, "float32", scenarios, store, None)
        )
    red = {c.claim for found in report.catches.values() for c in found}
    report.idle = tuple(claim for claim in pack.claims if claim not in red)
    for dtype in dtypes:
        if dtype != "float32":
            report.blind[dtype] = tuple(
                name
                for name, program in programs(pack)
                if not any(
                    c.margin >= 1
                    for p in program
                    for c in _graded(pack, p, "", dtype, scenarios, store, name)
                )
            )
    return report


def programs(pack: Pack) -> Iterator[tuple[str, list[Program]]]:
    """Each mistake with the program in each of its forms."""
    for mistake in pack.program.mistakes.values():
        yield mistake.id, [pack.program.mistaken(mistake, form) for form in mistake.forms()]


def _graded(
    pack: Pack,
    program: Program,
    behaviour: str,
    dtype: str,
    scenarios: Scenarios,
    store: dict[str, Array],
    mistake: str | None,
) -> Iterator[Catch]:
    """The claims that a program turns red. Of a mistake only the cases on which it differs count."""
    names = [entry_point(operation) for operation in pack.operations.values()]
    offer = offer_of(names)
    bench = ProgramBench(NoSession(), offer, store=store, program=program, behaviour=behaviour)
    for variant in pack.variants.values():
        graded = Graded((variant,), (variant,))
        grader = Grader(pack, bench, graded, scenarios, {})
        items = plan(pack, offer, graded, [dtype], Selection()).items
        touched = {
            case.id
            for case in {item.case.id: item.case for item in items}.values()
            if mistake is None or _touches(scenarios.of(case, variant), program, bench)
        }
        for verdict in grader.verdicts([item for item in items if item.case.id in touched]):
            judgement = verdict.judgement
            if judgement.verdict in BROKEN:
                margin = float("inf") if judgement.margin is None else judgement.margin
                yield Catch(verdict.claim, verdict.case, variant.name, margin, judgement.verdict)


def _touches(scenario: Scenario | None, program: Program, bench: ProgramBench) -> bool:
    """Whether a patched program makes anything else of a scenario than the true one."""
    if scenario is None:
        return False
    try:
        patched = scenario.read(Float64(), program)
    except (PackError, ValueError, IndexError):
        return True
    for ours, true in zip(patched, bench.expected(scenario), strict=True):
        for name, tensor in true.outputs.items():
            other = ours.outputs[name]
            if other.array.shape != tensor.array.shape or not np.array_equal(
                other.array, tensor.array, equal_nan=True
            ):
                return True
    return False


def mistakes_by_claim(report: Report) -> Mapping[str, list[str]]:
    """Which mistakes turn each claim red."""
    table: dict[str, list[str]] = {}
    for name, found in report.catches.items():
        for claim in dict.fromkeys(c.claim for c in found):
            table.setdefault(claim, []).append(name)
    return table
