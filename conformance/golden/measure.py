"""Every tolerance that grading asks for, found by grading the program itself.

The program shows every tensor that a target can show, so whatever a target is asked, the program
was asked too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path

from conformance.golden.contents import SEED
from conformance.grading import Grader
from conformance.plan.items import Item, entry_points, plan
from conformance.judging.observe import Observation
from conformance.judging.program_bench import NoSession, ProgramBench, offer_of
from conformance.language.arithmetic import Array
from conformance.language.tensors import Named
from conformance.pack.model import Pack
from conformance.plan.scenario import Scenario
from conformance.plan.scenarios import Scenarios
from conformance.plan.selection import Selection
from conformance.plan.variants import UNDECLARED, Graded


def measured(
    pack: Pack,
    dtypes: Sequence[str],
    cases: Sequence[str] = (),
    said: Callable[[str], None] = lambda _: None,
    jobs: int | None = 1,
) -> dict[str, Array]:
    """σ by key for every named variant and for targets that declare none, in each dtype, at seed 0.

    Args:
        pack: The pack whose claims ask for them.
        dtypes: Of the targets.
        cases: Only cases whose ids fit one of these patterns; none: all.
        said: Told what is done, a line at a time.
        jobs: Processes, one dtype each at a time; None: one a core. The result is the same.
    """
    jobs = min(jobs or os.cpu_count() or 1, len(dtypes))
    if jobs < 2:
        found = (in_dtype(pack, dtype, cases) for dtype in dtypes)
        return _joined(found, dtypes, said)
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        return _joined(
            pool.map(_in_process, ((pack.folder, dtype, tuple(cases)) for dtype in dtypes)), dtypes, said
        )


def _joined(
    found: Iterable[dict[str, Array]], dtypes: Sequence[str], said: Callable[[str], None]
) -> dict[str, Array]:
    store: dict[str, Array] = {}
    for dtype, some in zip(dtypes, found, strict=True):
        said(f"tolerances in {dtype}: {len(some)}")
        store |= some
    return store


def _in_process(task: tuple[Path, str, tuple[str, ...]]) -> dict[str, Array]:
    from conformance.pack.load import load_pack

    folder, dtype, cases = task
    return in_dtype(load_pack(folder), dtype, cases)


def in_dtype(pack: Pack, dtype: str, cases: Sequence[str]) -> dict[str, Array]:
    """The tolerances of one dtype; see `measured`."""
    store: dict[str, Array] = {}
    offer = offer_of(entry_points(pack))
    scenarios = Scenarios(pack, SEED)
    bench = ProgramBench(NoSession(), offer, store=store, program=pack.program)
    for graded in forms(pack):
        items = [
            item
            for item in plan(pack, offer, graded, [dtype], Selection()).items
            if not cases or any(fnmatchcase(item.case.id, pattern) for pattern in cases)
        ]
        for grader, some in _settled(Grader(pack, bench, graded, scenarios, {}), items, dtype):
            for _ in grader.verdicts(some):
                pass
            for hidden, few in _sparing(grader, some).items():
                for _ in replace(grader, bench=Sparing.of(bench, hidden)).verdicts(few):
                    pass
    return store


@dataclass
class Sparing(ProgramBench):
    """The program as a target that does not show tensors called `hidden` where they repeat one before.

    Where a rotation is by nothing or nothing is masked, many have no such tensor to show; and which
    tensors are shown decides what noise reaches a stage.
    """

    hidden: frozenset[str] = frozenset()

    @staticmethod
    def of(bench: ProgramBench, hidden: frozenset[str]) -> Sparing:
        """One that knows what `bench` knows, and adds to it."""
        return Sparing(
            bench.session,
            bench.offer,
            store=bench.store,
            program=bench.program,
            observed=bench.observed,
            exact=bench.exact,
            hidden=hidden,
        )

    def observe(self, scenario: Scenario, dtype: str, repetition: int = 0) -> Observation:
        """What the program makes of a scenario, with what is hidden left out."""
        seen = super().observe(scenario, dtype, repetition)
        steps = []
        for step, want in zip(seen.steps, self.expected(scenario), strict=False):
            gone = {name for name in repeated(want.taps) if name.rpartition(".")[2] in self.hidden}
            steps.append(replace(step, taps={n: t for n, t in step.taps.items() if n not in gone}))
        return replace(seen, steps=tuple(steps))


def _sparing(grader: Grader, items: Sequence[Item]) -> dict[frozenset[str], list[Item]]:
    """Which of the items look at stages, by each set of names that a target may then not show."""
    found: dict[frozenset[str], list[Item]] = {}
    for item in items:
        operation = grader.pack.operations[item.claim.operation]
        scenario = grader.scenarios.of(
            item.case, item.variant, grader.either(operation, item.variant, item.dtype)
        )
        if item.claim.kind != "equation" or scenario is None:
            continue
        names = {
            name.rpartition(".")[2]
            for step in grader.bench.expected(scenario)
            for name in repeated(step.taps)
        }
        for count in range(1, len(names) + 1):
            for some in combinations(sorted(names), count):
                found.setdefault(frozenset(some), []).append(item)
    return found


def repeated(taps: Mapping[str, Named[Array]]) -> frozenset[str]:
    """The tensors that equal one before them in the same place, axes and all."""
    found: set[str] = set()
    firsts: dict[tuple[str, tuple[str, ...], bytes], str] = {}
    for name, tensor in taps.items():
        if firsts.setdefault((name.rpartition(".")[0], tensor.axes, tensor.array.tobytes()), name) != name:
            found.add(name)
    return frozenset(found)


def forms(pack: Pack) -> Iterator[Graded]:
    """What a target may declare: each named variant, or none."""
    for variant in pack.variants.values():
        yield Graded((variant,), (variant,))
    yield Graded((pack.variants[UNDECLARED],), ())


def _settled(grader: Grader, items: Sequence[Item], dtype: str) -> Iterator[tuple[Grader, list[Item]]]:
    """The items under every way to settle what their operations leave open, as if a target followed it."""
    variant = grader.graded.variants[0]
    ways = {name: list(grader.candidates(o, variant)) for name, o in grader.pack.operations.items()}
    for i in range(max(map(len, ways.values()))):
        grader.settled = {(name, variant.name, dtype): way[i] for name, way in ways.items() if i < len(way)}
        yield grader, [item for item in items if i < len(ways[item.claim.operation])]
