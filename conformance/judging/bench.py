"""The workbench of one target: what it made of each scenario, and what the program makes of it.

Everything is computed once and kept: the target's answers, the exact reading, the spread of the
stochastic reading, and both again stage by stage on the target's own tensors.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from conformance.judging.large_spreads import Kept, LargeSpreads
from conformance.judging.observe import Observation, call_of, interleaved_call, observation, prefix_call
from conformance.judging.prepared import Prepared
from conformance.judging.spreads import Spreads, in_place
from conformance.language.arithmetic import Array
from conformance.language.tensors import Named
from conformance.plan.large import stages_are_seen
from conformance.plan.scenario import Scenario, Tensors
from conformance.session import Call, Offer, Outcome, Returned
from conformance.tolerance import tolerance

if TYPE_CHECKING:
    from conformance.onnx.serving import Graph


UNLIKE = 8.0
"""A model of another structure, beside the program: layers sum in other orders and over more terms."""


class Caller(Protocol):
    """Whatever makes calls: a session with a worker, or a stand-in in a test."""

    def call(self, call: Call, dtype: str) -> Outcome:
        """Make a call in a dtype."""


@dataclass
class Bench:
    """See the module."""

    session: Caller
    offer: Offer
    observed: dict[tuple[str, str, bool, int], Observation] = field(default_factory=dict)
    exact: dict[str, list[Tensors]] = field(default_factory=dict)
    locals: dict[tuple[str, str], list[dict[str, Named[Array]]]] = field(default_factory=dict)
    store: MutableMapping[str, Array] = field(default_factory=dict)
    graph: Graph | None = None
    """What was read of the target, where it is a graph."""
    prepared: Prepared = field(default_factory=Prepared)

    def __post_init__(self) -> None:
        """The spreads read the program as this bench does. Of a large target little is kept."""
        if self.graph is not None and self.graph.own.large:
            self.observed, self.exact, self.locals = Kept(2), Kept(2), Kept(1)
            self.spreads: Spreads = LargeSpreads(self.expected, self.store)
        else:
            self.spreads = Spreads(self.expected, self.store)

    # -- the target ---------------------------------------------------------------------------

    def observe(self, scenario: Scenario, dtype: str, repetition: int = 0) -> Observation:
        """What the target makes of a scenario. `repetition` asks for the same call again."""
        tap = scenario.operation.taps and stages_are_seen(scenario)
        key = (scenario.key, dtype, tap, repetition)
        if key not in self.observed:
            self.observed[key] = self._observe(scenario, dtype, tap, repetition)
        return self.observed[key]

    def _observe(self, scenario: Scenario, dtype: str, tap: bool, repetition: int) -> Observation:
        expected = self.expected(scenario)
        outcome = self.session.call(self.call(scenario, tap, repetition), dtype)
        seen = observation(scenario, outcome, expected, dtype)
        if not seen.last_only or scenario.cached:
            return seen
        outcome = self.session.call(prefix_call(scenario, expected[0].shapes), dtype)
        return self._from_prefixes(scenario, outcome, expected, seen, dtype)

    def interleave(self, scenario: Scenario, other: Scenario, dtype: str) -> Observation:
        """What the target makes of a scenario whose calls take turns with another's."""
        expected = self.expected(scenario)
        outcome = self.session.call(self.interleaved(scenario, other), dtype)
        if isinstance(outcome, Returned):
            outcome = replace(outcome, outputs=outcome.outputs[::2])
        return observation(scenario, outcome, expected, dtype)

    def call(self, scenario: Scenario, tap: bool, repetition: int) -> Call:
        """What `observe` asks of the target."""

        def make() -> Call:
            shapes = [step.shapes for step in self.expected(scenario)]
            return call_of(scenario, tap=tap, expect=shapes, repetition=repetition)

        return self.prepared.of(scenario, ("call", tap, repetition), make)

    def interleaved(self, scenario: Scenario, other: Scenario) -> Call:
        """What `interleave` asks of the target."""

        def make() -> Call:
            return interleaved_call(scenario, other, [step.shapes for step in self.expected(scenario)])

        return self.prepared.of(scenario, ("interleaved", other), make)

    def _from_prefixes(
        self, scenario: Scenario, outcome: Outcome, expected: list[Tensors], seen: Observation, dtype: str
    ) -> Observation:
        """The last position of every prefix, side by side: the logits of all positions."""
        if not isinstance(outcome, Returned):
            return observation(scenario, outcome, expected, dtype)
        (want,) = expected
        parts = [output.tensors.get("logits") for output in outcome.outputs]
        shape = want.outputs["logits"].array.shape
        if any(part is None or part.shape != (shape[0], 1, *shape[2:]) for part in parts):
            got = next(
                o.shapes["logits"]
                for o, p in zip(outcome.outputs, parts, strict=True)
                if p is None or p.shape[1] != 1
            )
            return Observation(shapes={"logits": ((shape[0], 1, *shape[2:]), got)})
        joined = np.concatenate([part for part in parts if part is not None], axis=1)
        named = Named(want.outputs["logits"].axes, joined)
        return Observation(
            (Tensors({"logits": named}, seen.steps[0].taps),),
            None,
            {},
            seen.lower,
            seen.modified,
            False,
            seen.seconds,
        )

    def ask(self, call: Call, scenario: Scenario, dtype: str) -> Outcome:
        """A call that is no scenario: with an argument spoilt, or for the parameters' shapes."""
        del scenario
        return self.session.call(call, dtype)

    # -- the program --------------------------------------------------------------------------

    def expected(self, scenario: Scenario) -> list[Tensors]:
        """The exact reading, call by call."""
        if scenario.key not in self.exact:
            self.exact[scenario.key] = scenario.read(scenario.arithmetic, keep_taps=stages_are_seen(scenario))
        return self.exact[scenario.key]

    def mistaken(self, scenario: Scenario, mistake: str) -> list[Tensors]:
        """The exact reading of the program with a mistake made. Raises `PackError` where it does not fit."""
        if scenario.large:
            return scenario.read(scenario.arithmetic, scenario.pack.program.patched(mistake))
        key = f"{scenario.key}/{mistake}"
        if key not in self.exact:
            self.exact[key] = scenario.read(scenario.arithmetic, scenario.pack.program.patched(mistake))
        return self.exact[key]

    def sigma(self, scenario: Scenario, dtype: str, step: int, name: str) -> Array:
        """The spread σ of an output or tap of one call."""
        sigma = self.spreads.sigma(scenario, dtype, step, name)
        return sigma * self._unlike(scenario, dtype) if scenario.lacking else sigma

    def _unlike(self, scenario: Scenario, dtype: str) -> float:
        """How much noisier a target may be that the program does not describe in full.

        Such a target is compared with itself only; the program's noise, at the scale of the target's numbers,
        stands for its own.
        """
        seen, name = self.observe(scenario, dtype), scenario.main_output
        if not seen.steps or name not in seen.steps[0].outputs:
            return 1.0
        own, ours = (
            float(np.sqrt(np.mean(np.square(array.astype(np.float64)))))
            for array in (seen.steps[0].outputs[name].array, self.expected(scenario)[0].outputs[name].array)
        )
        return UNLIKE * max(1.0, own / ours) if ours > 0 and np.isfinite(own) else UNLIKE

    def allowed(self, scenario: Scenario, dtype: str, step: int, output: str) -> Array:
        """The tolerance of each element of an output."""
        sigma = self.sigma(scenario, dtype, step, output)
        if sigma.size and not any(
            sigma.strides
        ):  # of a large target one number for all elements, and so it stays
            return np.broadcast_to(tolerance(sigma[(slice(1),) * sigma.ndim], dtype), sigma.shape)
        return tolerance(sigma, dtype)

    def local(self, scenario: Scenario, dtype: str) -> list[dict[str, Named[Array]]]:
        """What each stage should have made of the target's own upstream tensors, call by call."""
        key = (scenario.key, dtype)
        if key not in self.locals:
            seen = self.observe(scenario, dtype)
            made: list[dict[str, Named[Array]]] = [{} for _ in seen.steps]
            scenario.read(
                scenario.arithmetic,
                substitute=lambda i: in_place(seen.steps[i].taps, made[i], lambda a: a),
                keep_taps=False,
            )
            self.locals[key] = made
        return self.locals[key]

    def local_allowed(self, scenario: Scenario, dtype: str, step: int, tap: str) -> Array:
        """The tolerance of a stage on the target's own tensors; axes as in `local`."""
        own = [s.taps for s in self.observe(scenario, dtype).steps]
        made = self.local(scenario, dtype)
        return tolerance(self.spreads.stage_sigma(scenario, dtype, own, made, step, tap), dtype)

    def nearly_allowed(self, scenario: Scenario, dtype: str, step: int, tap: str) -> Array:
        """As `local_allowed`, for who looks where a fault is: of a large target it is measured once, for one scenario."""
        if not isinstance(self.spreads, LargeSpreads):
            return self.local_allowed(scenario, dtype, step, tap)
        made = self.local(scenario, dtype)
        own = [s.taps for s in self.observe(scenario, dtype).steps]
        return tolerance(self.spreads.near_stage_sigma(scenario, dtype, own, made, step, tap), dtype)
