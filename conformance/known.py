"""What grading asks of the pack alone: inputs, expected values and spreads, kept for the next target.

They depend on the pack and the seed, never on a target. Who grades many of one kind computes them once.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field

from conformance.golden.tolerances import known_tolerances
from conformance.grading import Grader, entry_points, plan
from conformance.judging.program_bench import NoSession, ProgramBench, offer_of
from conformance.language.arithmetic import Array
from conformance.pack.model import Pack
from conformance.plan.scenario import Scenarios, Tensors
from conformance.plan.selection import Selection
from conformance.plan.variants import resolve


@dataclass
class Known:
    """Of one pack and one seed. All of it is found by what it depends on, so nothing can be mistaken for another."""

    pack: Pack
    seed: int
    scenarios: Scenarios
    store: MutableMapping[str, Array]
    exact: dict[str, list[Tensors]] = field(default_factory=dict)

    @staticmethod
    def of(pack: Pack, seed: int) -> Known:
        """With nothing known but the bundled tolerances."""
        return Known(pack, seed, Scenarios(pack, seed), known_tolerances(pack))

    def prepare(self, variants: Sequence[str], dtypes: Sequence[str], selection: Selection) -> None:
        """Works out what grading a target of these variants (names of the pack) and dtypes will ask for.

        The program itself is graded as if it were one: seconds for each variant and dtype. Raises
        `VariantError` for an unknown name.
        """
        graded = resolve(self.pack, (), tuple(variants))
        offer = offer_of(entry_points(self.pack))
        bench = ProgramBench(
            NoSession(), offer, exact=self.exact, store=self.store, program=self.pack.program
        )
        grader = Grader(self.pack, bench, graded, self.scenarios, {})
        for _ in grader.verdicts(plan(self.pack, offer, graded, dtypes, selection).items):
            pass
