"""The suite graded by its own mistakes: is every mistake caught, and does every claim catch one?

A mistake is a patched program, read natively in float32 and graded as any target is. It must be
exposed by ten tolerances somewhere, in each of its forms; a claim that no mistake and no misbehaving
target turns red proves nothing; and the true program must be green in every dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import numpy as np

from conformance.golden.tolerances import known_tolerances
from conformance.grading import Grader
from conformance.judging.kinds import OF_GRAPHS
from conformance.judging.program_bench import BEHAVIOURS, NoSession, ProgramBench, offer_of
from conformance.language.arithmetic import Array, Float64, Native
from conformance.language.errors import PackError
from conformance.language.program import Choices, Program
from conformance.pack.load import load_pack
from conformance.pack.model import DTYPES, Pack, Variant
from conformance.plan.items import Item, entry_points, plan
from conformance.plan.scenario import Scenario, Tensors
from conformance.plan.scenarios import Scenarios
from conformance.plan.selection import Selection
from conformance.plan.variants import Graded, further_variants
from conformance.results.records import BROKEN
from conformance.tolerance import tolerance

Compare = Callable[[Scenario, ProgramBench], tuple[bool, set[str]]]
"""Whether a patched program differs on a case, and the sixteen-bit dtypes in which an output shows it."""

EXPOSED = 10.0
"""A mistake counts as exposed where some claim sees it by this many tolerances."""
NARROW = ("float16", "bfloat16")
TRUE = "the program itself"
UNREADABLE = (PackError, ValueError, IndexError, ZeroDivisionError)


@dataclass(frozen=True)
class Catch:
    """A claim that something turns red: on which case and variant, by how many tolerances."""

    claim: str
    case: str
    variant: str
    margin: float
    verdict: str


@dataclass(frozen=True)
class Trial:
    """What became of one mistake in one form, of a misbehaviour, or of the program itself.

    `seen_in` are the sixteen-bit dtypes in which an output leaves its tolerance.
    """

    name: str
    form: str
    dtype: str
    catches: tuple[Catch, ...]
    seen_in: frozenset[str] = frozenset()

    @property
    def margin(self) -> float:
        """By how many tolerances it is exposed at best; 0 where nothing sees it."""
        return max((c.margin for c in self.catches), default=0.0)


@dataclass(frozen=True)
class Report:
    """All trials, and what follows from them."""

    claims: tuple[str, ...]
    trials: tuple[Trial, ...]
    alarms: tuple[Trial, ...]
    complete: bool = True

    def hidden(self) -> list[Trial]:
        """Mistakes and forms that nothing exposes by `EXPOSED` tolerances."""
        return [trial for trial in self.trials if trial.margin < EXPOSED]

    def idle(self) -> list[str]:
        """Claims that nothing turns red; none where only some mistakes were tried."""
        red = {c.claim for trial in self.trials for c in trial.catches}
        return [claim for claim in self.claims if claim not in red] if self.complete else []

    def blind(self, dtype: str) -> list[str]:
        """Mistakes that no output shows in a sixteen-bit dtype."""
        seen = {trial.name for trial in self.trials if dtype in trial.seen_in}
        return list(
            dict.fromkeys(t.name for t in self.trials if t.name not in seen and t.name not in BEHAVIOURS)
        )

    @property
    def passed(self) -> bool:
        """Whether the suite proves itself."""
        return not self.hidden() and not self.idle() and not any(alarm.catches for alarm in self.alarms)


@dataclass(frozen=True)
class Task:
    """One trial to make: a mistake and which of its forms, a behaviour, or the program in a dtype."""

    name: str
    form: int = 0
    dtype: str = "float32"


def tasks(pack: Pack, pattern: str = "*") -> list[Task]:
    """Everything there is to try; `pattern` chooses mistakes and behaviours."""
    found = [Task(TRUE, dtype=dtype) for dtype in DTYPES]
    for mistake in pack.program.mistakes.values():
        found += [
            Task(mistake.id, i) for i in range(len(mistake.forms())) if fnmatchcase(mistake.id, pattern)
        ]
    asked = behaviours(pack)
    return found + [Task(name) for name in BEHAVIOURS if name in asked and fnmatchcase(name, pattern)]


def behaviours(pack: Pack) -> set[str]:
    """The misbehaviours that some claim of a pack is about; nothing else could expose them."""
    kinds = {"untouched": "modifies-inputs", "raises": "accepts-anything", "count": "miscounts"}
    found = {kinds[claim.kind] for claim in pack.claims.values() if claim.kind in kinds}
    for claim in pack.claims.values():
        if claim.kind == "experiment":
            found |= {"answers-differ"} if claim.body.twice else set()
            found |= {"shares-caches"} if claim.body.interleave else set()
    return found


def selftest(
    folder: Path, pattern: str = "*", jobs: int = 1, said: Callable[[Trial], None] = lambda _: None
) -> Report:
    """Try everything in a pack, `jobs` trials at a time. Raises `PackError` for a faulty pack."""
    pack = load_pack(folder, mistakes=True)
    todo = tasks(pack, pattern)
    made: list[Trial] = []
    if jobs == 1:
        laboratory = Laboratory(pack)
        for task in todo:
            made.append(laboratory.trial(task))
            said(made[-1])
    else:
        with ProcessPoolExecutor(jobs) as pool:
            for trial in pool.map(partial(_trial_of, folder), todo):
                made.append(trial)
                said(trial)
    alarms = tuple(trial for trial in made if trial.name == TRUE)
    return Report(
        asked_of_programs(pack), tuple(trial for trial in made if trial.name != TRUE), alarms, pattern == "*"
    )


def asked_of_programs(pack: Pack) -> tuple[str, ...]:
    """Claims that a program can be asked; those about graphs are tried on wrong graphs (tests/graphs)."""
    return tuple(claim.id for claim in pack.claims.values() if claim.kind not in OF_GRAPHS)


_LABORATORIES: dict[Path, Laboratory] = {}


def _trial_of(folder: Path, task: Task) -> Trial:
    """A trial in a process of the pool, which loads the pack once."""
    if folder not in _LABORATORIES:
        _LABORATORIES[folder] = Laboratory(load_pack(folder))
    return _LABORATORIES[folder].trial(task)


@dataclass
class Laboratory:
    """Makes trials of one pack; what the true program makes of each case is kept."""

    pack: Pack
    store: MutableMapping[str, Array] = field(init=False)
    exact: dict[str, list[Tensors]] = field(default_factory=dict)
    scenarios: Scenarios = field(init=False)
    true: ProgramBench = field(init=False)

    def __post_init__(self) -> None:
        """All trials share the cases, and the bench that knows the true program."""
        self.store = known_tolerances(self.pack)
        self.scenarios = Scenarios(self.pack, 0)
        self.true = self.bench(self.pack.program, "")

    def bench(self, program: Program, behaviour: str) -> ProgramBench:
        """A bench whose target is a program."""
        return ProgramBench(
            NoSession(),
            offer_of(entry_points(self.pack)),
            exact=self.exact,
            store=self.store,
            program=program,
            behaviour=behaviour,
        )

    def trial(self, task: Task) -> Trial:
        """Grade what a task names."""
        if task.name == TRUE or task.name in BEHAVIOURS:
            behaviour = "" if task.name == TRUE else task.name
            bench = self.bench(self.pack.program, behaviour)
            named = [*self.pack.variants.values()]
            return Trial(task.name, "", task.dtype, tuple(self.graded(bench, task.dtype, named)))
        mistake = self.pack.program.mistakes[task.name]
        form = mistake.forms()[task.form]
        bench = self.bench(self.pack.program.mistaken(mistake, form), "")
        changed = partial(self.pack.program.changed_by, mistake, form)
        text = ", ".join(f"{name}={value}" for name, value in form.items())
        for variants, compare in self.searches():
            differing, seen = self.differing(bench, variants, compare, changed)
            if differing:
                catches = tuple(self.graded(bench, task.dtype, variants, differing))
                return Trial(task.name, text, task.dtype, catches, frozenset(seen))
        return Trial(task.name, text, task.dtype, ())

    def searches(self) -> Iterator[tuple[Sequence[Variant], Compare]]:
        """Where a mistake is looked for, one after the other until it makes a difference.

        In the named variants; in further ones; and last in what only a native reading shows, where
        it is the same formula but for its range.
        """
        named = [*self.pack.variants.values()]
        yield named, self.exactly
        for variant in further_variants(self.pack):
            yield [variant], self.exactly
        yield named, self.in_range

    def differing(
        self,
        bench: ProgramBench,
        variants: Sequence[Variant],
        compare: Compare,
        changed: Callable[[Choices], frozenset[str]],
    ) -> tuple[frozenset[str], set[str]]:
        """The cases (by key) on which a patched program differs, and the narrow dtypes that show it."""
        keys: set[str] = set()
        seen: set[str] = set()
        for scenario in self.all_scenarios(variants):
            if changed(scenario.choices) & scenario.entered:
                differs, visible = compare(scenario, bench)
                seen |= visible
                if differs:
                    keys.add(scenario.key)
        return frozenset(keys), seen

    def all_scenarios(self, variants: Sequence[Variant]) -> Iterator[Scenario]:
        """Every case in every variant; an operation that is the same in several counts once."""
        keys = set()
        for variant in variants:
            grader = Grader(self.pack, self.true, Graded((variant,), (variant,)), self.scenarios, {})
            for case in self.pack.cases.values():
                scenario = grader.scenario(case, variant, "float32")
                if scenario is not None and scenario.key not in keys:
                    keys.add(scenario.key)
                    yield scenario

    @staticmethod
    def in_range(scenario: Scenario, bench: ProgramBench) -> tuple[bool, set[str]]:
        """Whether a patched program, read in float32, is not finite where the true one is."""
        ours, true = (scenario.read(Native("float32"), p) for p in (bench.program, None))
        differs = any(
            bool((np.isfinite(t.array) & ~np.isfinite(o.outputs[name].array)).any())
            for o, e in zip(ours, true, strict=True)
            for name, t in e.outputs.items()
        )
        return differs, set()

    def exactly(self, scenario: Scenario, bench: ProgramBench) -> tuple[bool, set[str]]:
        """Whether a patched program makes anything else, and the dtypes in which an output shows it."""
        try:
            patched = scenario.read(Float64(), bench.program)
        except UNREADABLE:
            return True, set(NARROW)
        differs = False
        visible: set[str] = set()
        for i, (ours, true) in enumerate(zip(patched, self.true.expected(scenario), strict=True)):
            for name, tensor in true.outputs.items():
                other = ours.outputs[name].array
                if other.shape != tensor.array.shape:
                    return True, set(NARROW)
                if np.array_equal(other, tensor.array, equal_nan=True):
                    continue
                differs = True
                for dtype in NARROW:
                    allowed = tolerance(self.true.sigma(scenario, dtype, i, name), dtype)
                    with np.errstate(all="ignore"):
                        if not (np.abs(other - tensor.array) <= allowed).all():
                            visible.add(dtype)
        return differs, visible

    def graded(
        self,
        bench: ProgramBench,
        dtype: str,
        variants: Sequence[Variant],
        only: frozenset[str] | None = None,
    ) -> Iterator[Catch]:
        """The claims that a program turns red; `only` names the cases that count, by key."""
        done: set[tuple[str, str]] = set()
        for variant in variants:
            graded = Graded((variant,), (variant,))
            grader = Grader(self.pack, bench, graded, self.scenarios, {})
            items: list[Item] = []
            for item in plan(self.pack, bench.offer, graded, [dtype], Selection()).items:
                scenario = grader.scenario(item.case, variant, "float32")
                key = (item.claim.id, scenario.key if scenario else "")
                if scenario is None or key in done or (only is not None and scenario.key not in only):
                    continue
                done.add(key)
                items.append(item)
            for verdict in grader.verdicts(items):
                judgement = verdict.judgement
                if judgement.verdict in BROKEN:
                    margin = float("inf") if judgement.margin is None else judgement.margin
                    yield Catch(verdict.claim, verdict.case, variant.name, margin, judgement.verdict)


def table(trials: Sequence[Trial]) -> Iterator[str]:
    """Mistake × claims that catch it × margin, one line each claim."""
    for trial in trials:
        best: dict[str, float] = {}
        for catch in trial.catches:
            best[catch.claim] = max(best.get(catch.claim, 0.0), catch.margin)
        yield f"{trial.name}{f' ({trial.form})' if trial.form else ''}: {len(best)} claims"
        for claim, margin in sorted(best.items(), key=lambda entry: -entry[1]):
            yield f"    {claim:48} {margin:12.4g}"
