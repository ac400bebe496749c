"""What `conformance spec check` finds by trying: each claim judged once, on the program itself.

Loading checks what can be seen without data. An expression of a claim is read when the claim is
judged; here that is done before a target has to wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from conformance.grading import EngineFault, Grader
from conformance.judging.program_bench import NoSession, ProgramBench, offer_of
from conformance.judging.spreads import Spreads, Taps
from conformance.language.arithmetic import Array
from conformance.language.errors import PackError
from conformance.pack.model import Pack
from conformance.plan.items import Item, entry_points, plan
from conformance.plan.scenario import Scenario
from conformance.plan.scenarios import Scenarios
from conformance.plan.selection import Selection
from conformance.plan.variants import Graded, further_variants

DTYPE = "float64"


class _Known(dict[str, Array]):
    """A store in which the spread of every expression stands: a number, which fits every tensor."""

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> Array:
        return np.array(1.0)


class _Unmeasured(Spreads):
    """Spreads of 1 for all that is asked for: a trial wants no verdict, and measures nothing."""

    def sigma(self, scenario: Scenario, dtype: str, step: int, name: str) -> Array:
        expected = self.expected(scenario)[step]
        return np.ones({**expected.taps, **expected.outputs}[name].array.shape)

    def stage_sigma(
        self, scenario: Scenario, dtype: str, own: Taps, made: Taps, step: int, name: str
    ) -> Array:
        return np.ones(made[step][name].array.shape)


def trial_errors(pack: Pack) -> Iterator[PackError]:
    """Faults of claims that show when they are judged, and claims that no variant reaches."""
    offer = replace(offer_of(entry_points(pack)), fully_masked=None)
    bench = ProgramBench(NoSession(), offer, store=_Known(), program=pack.program)
    bench.spreads = _Unmeasured(bench.expected, bench.store)
    scenarios = Scenarios(pack)
    tried: set[str] = set()
    for variant in (*pack.variants.values(), *further_variants(pack)):
        if len(tried) == len(pack.claims):
            break
        graded = Graded((variant,), (variant,))
        grader = Grader(pack, bench, graded, scenarios, {})
        for item in plan(pack, offer, graded, [DTYPE], Selection(), graph=True).items:
            if item.claim.id not in tried:
                tried.add(item.claim.id)
                yield from _tried(grader, item)
    for claim in pack.claims.values():
        if claim.id not in tried:
            yield PackError(
                f"no variant reaches '{claim.id}'", claim.at, "see its when:, and that of its cases"
            )


def _tried(grader: Grader, item: Item) -> Iterator[PackError]:
    try:
        grader.judge(item)
    except PackError as error:
        yield error
    except EngineFault as error:
        yield PackError(str(error), item.claim.at)
