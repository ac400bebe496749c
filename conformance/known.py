"""What grading asks of the pack alone: inputs, expected values and spreads, kept for the next target.

They depend on the pack and the seed, never on a target. Who grades many of one kind computes them once.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from conformance.golden.tolerances import known_tolerances
from conformance.grading import Grader
from conformance.judging.bench import Bench, Caller
from conformance.judging.common import Question
from conformance.judging.observe import Observation
from conformance.judging.prepared import Prepared
from conformance.judging.profiles import Profiler
from conformance.judging.program_bench import NoSession, ProgramBench, offer_of
from conformance.language.arithmetic import Array
from conformance.pack.model import Pack
from conformance.plan.items import Item, entry_points, plan
from conformance.plan.scenario import Scenario, Tensors
from conformance.plan.scenarios import Scenarios
from conformance.plan.selection import Selection
from conformance.plan.variants import resolve
from conformance.results.records import Verdict
from conformance.session import Offer
from conformance.session.requests import ready

if TYPE_CHECKING:
    from conformance.onnx.serving import Graph


@dataclass
class Known:
    """Of one pack and one seed. All of it is found by what it depends on, so nothing can be mistaken for another."""

    pack: Pack
    seed: int
    scenarios: Scenarios
    store: MutableMapping[str, Array]
    exact: dict[str, list[Tensors]] = field(default_factory=dict)
    prepared: Prepared = field(default_factory=Prepared)

    @staticmethod
    def of(pack: Pack, seed: int) -> Known:
        """With nothing known but the bundled tolerances."""
        return Known(pack, seed, Scenarios(pack, seed), known_tolerances(pack))

    def bench(self, session: Caller, offer: Offer, graph: Graph | None = None) -> Bench:
        """The bench of a target, on what is known; what it works out is known to the next."""
        return Bench(session, offer, exact=self.exact, store=self.store, graph=graph, prepared=self.prepared)

    def program(self, session: Caller, offer: Offer) -> ProgramBench:
        """The bench of the program itself."""
        return ProgramBench(
            session,
            offer,
            exact=self.exact,
            store=self.store,
            prepared=self.prepared,
            program=self.pack.program,
        )

    def prepare(
        self, variants: Sequence[str], dtypes: Sequence[str], selection: Selection
    ) -> list[tuple[Item, Verdict]]:
        """Works out what grading a target of these variants (names of the pack) and dtypes will ask for.

        A target that answers exactly is graded: seconds for each variant and dtype. Raises `VariantError`
        for an unknown name.
        """
        graded = resolve(self.pack, (), tuple(variants))
        offer = offer_of(entry_points(self.pack))
        bench = Exact(
            NoSession(),
            offer,
            exact=self.exact,
            store=self.store,
            prepared=self.prepared,
            program=self.pack.program,
        )
        grader = Grader(self.pack, bench, graded, self.scenarios, {})
        return list(self._graded(grader, plan(self.pack, offer, graded, dtypes, selection).items))

    @staticmethod
    def _graded(grader: Grader, items: Sequence[Item]) -> Iterator[tuple[Item, Verdict]]:
        profiler = Profiler()
        for item, verdict in grader.graded_items(items):
            scenario = grader.scenario(item.case, item.variant, item.dtype)
            if scenario is not None and item.refusal is None:
                profiler.of(Question(item.claim, scenario, item.dtype, grader.bench), passed=True)
            yield item, verdict


@dataclass
class Exact(ProgramBench):
    """A bench whose target answers what is expected, and shows all: nothing is computed but what others need too."""

    def observe(self, scenario: Scenario, dtype: str, repetition: int = 0) -> Observation:
        """The expected values; what a target would be asked is made ready."""
        tap = scenario.operation.taps
        ready(self.call(scenario, tap, repetition), dtype)
        offered = self.session_tensors(scenario)
        return Observation(
            tuple(
                Tensors(
                    step.outputs,
                    {n: t for n, t in step.taps.items() if n.rpartition(".")[2] in offered} if tap else {},
                )
                for step in self.expected(scenario)
            )
        )

    def interleave(self, scenario: Scenario, other: Scenario, dtype: str) -> Observation:
        """The expected values of the one."""
        ready(self.interleaved(scenario, other), dtype)
        return self.observe(scenario, dtype)
