"""The workbench of one target: what it made of each scenario, and what the program makes of it.

Everything is computed once and kept: the target's answers, the exact reading, the spread of the
stochastic reading, and both again stage by stage on the target's own tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from conformance.judging.observe import Observation, call_of, observation, prefix_call
from conformance.language.arithmetic import Array, Float64
from conformance.language.evaluate import Substitute
from conformance.language.program import Program
from conformance.language.tensors import Named
from conformance.noise import ROUNDOFF, Noise, default_generator, spread
from conformance.plan.scenario import Scenario, Tensors
from conformance.session import Call, Offer, Outcome, Returned
from conformance.tolerance import tolerance


class Caller(Protocol):
    """Whatever makes calls: a session with a worker, or a stand-in in a test."""

    def call(self, call: Call, dtype: str) -> Outcome:
        """Make a call in a dtype."""


@dataclass(frozen=True)
class Local:
    """The program read on the target's own tensors: what each stage should have made of them."""

    expected: tuple[Mapping[str, Named[Array]], ...]
    sigma: tuple[Mapping[str, Array], ...]


@dataclass
class Bench:
    """See the module."""

    session: Caller
    offer: Offer
    observed: dict[tuple[str, str, bool, int], Observation] = field(default_factory=dict)
    exact: dict[str, list[Tensors]] = field(default_factory=dict)
    sampled: dict[tuple[str, str], list[Tensors]] = field(default_factory=dict)
    sigmas: dict[tuple[str, str], list[Mapping[str, Array]]] = field(default_factory=dict)
    locals: dict[tuple[str, str], Local] = field(default_factory=dict)

    # -- the target ---------------------------------------------------------------------------

    def observe(self, scenario: Scenario, dtype: str, repetition: int = 0) -> Observation:
        """What the target makes of a scenario. `repetition` asks for the same call again."""
        tap = scenario.operation.taps
        key = (scenario.key, dtype, tap, repetition)
        if key not in self.observed:
            self.observed[key] = self._observe(scenario, dtype, tap, repetition)
        return self.observed[key]

    def _observe(self, scenario: Scenario, dtype: str, tap: bool, repetition: int) -> Observation:
        expected = self.expected(scenario)
        shapes = [{name: t.array.shape for name, t in step.outputs.items()} for step in expected]
        outcome = self.session.call(call_of(scenario, tap=tap, expect=shapes, repetition=repetition), dtype)
        seen = observation(scenario, outcome, expected, dtype)
        if not seen.last_only or scenario.cached:
            return seen
        outcome = self.session.call(prefix_call(scenario, shapes[0]), dtype)
        return self._from_prefixes(scenario, outcome, expected, seen, dtype)

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
            got = next(o.shapes["logits"] for o, p in zip(outcome.outputs, parts, strict=True) if p is None or p.shape[1] != 1)
            return Observation(shapes={"logits": ((shape[0], 1, *shape[2:]), got)})
        joined = np.concatenate([part for part in parts if part is not None], axis=1)
        named = Named(want.outputs["logits"].axes, joined)
        return Observation(
            (Tensors({"logits": named}, seen.steps[0].taps),), None, {}, seen.lower, seen.modified, False, seen.seconds
        )

    # -- the program --------------------------------------------------------------------------

    def expected(self, scenario: Scenario) -> list[Tensors]:
        """The exact reading, call by call."""
        if scenario.key not in self.exact:
            self.exact[scenario.key] = scenario.read(Float64())
        return self.exact[scenario.key]

    def patched(self, scenario: Scenario, program: Program) -> list[Tensors]:
        """The exact reading of another program, not kept."""
        return scenario.read(Float64(), program)

    def samples(self, scenario: Scenario, dtype: str) -> list[Tensors]:
        """The stochastic reading, call by call: arrays with their samples along a first axis."""
        key = (scenario.key, dtype)
        if key not in self.sampled:
            self.sampled[key] = scenario.read(Noise(dtype, default_generator(scenario.key)))
        return self.sampled[key]

    def sigma(self, scenario: Scenario, dtype: str) -> list[Mapping[str, Array]]:
        """The spread σ of every output in a dtype, call by call."""
        key = (scenario.key, dtype)
        if key not in self.sigmas:
            samples = self.samples(scenario, dtype)
            self.sigmas[key] = [
                {name: spread(_ordered(s.outputs[name], (SAMPLES_AXIS, *t.axes)), t.array) for name, t in e.outputs.items()}
                for s, e in zip(samples, self.expected(scenario), strict=True)
            ]
        return self.sigmas[key]

    def allowed(self, scenario: Scenario, dtype: str, step: int, output: str) -> Array:
        """The tolerance of each element of an output."""
        return tolerance(self.sigma(scenario, dtype)[step][output], dtype)

    def local(self, scenario: Scenario, dtype: str) -> Local:
        """Every stage on the target's own upstream tensors, with its spread."""
        key = (scenario.key, dtype)
        if key not in self.locals:
            self.locals[key] = self._local(scenario, dtype)
        return self.locals[key]

    def _local(self, scenario: Scenario, dtype: str) -> Local:
        seen = self.observe(scenario, dtype)
        expected: list[dict[str, Named[Array]]] = [{} for _ in seen.steps]
        samples: list[dict[str, Named[Array]]] = [{} for _ in seen.steps]
        scenario.read(Float64(), substitute=lambda i: _in_place(seen.steps[i].taps, expected[i], lambda a: a))
        noise = Noise(dtype, default_generator(scenario.key))

        def perturbed(array: Array) -> Array:
            with np.errstate(all="ignore"):
                lifted = noise.lift(array)
                return np.where(np.isfinite(lifted), lifted * (1 + ROUNDOFF[dtype] * noise.jitter(lifted.shape)), lifted)

        scenario.read(noise, substitute=lambda i: _in_place(seen.steps[i].taps, samples[i], perturbed))
        sigma = [
            {name: spread(_ordered(s[name], (SAMPLES_AXIS, *e[name].axes)), e[name].array) for name in e}
            for s, e in zip(samples, expected, strict=True)
        ]
        return Local(tuple(expected), tuple(sigma))


SAMPLES_AXIS = "samples"


def _ordered(tensor: Named[Array], axes: tuple[str, ...]) -> Array:
    """A noisy tensor with its samples first and its axes in the order of `axes`."""
    own = (SAMPLES_AXIS, *tensor.axes)
    return tensor.array.transpose([own.index(axis) for axis in axes])


def _in_place(
    taps: Mapping[str, Named[Array]], record: dict[str, Named[Any]], prepare: Callable[[Array], Array]
) -> Substitute:
    """Records what the program makes of a stage and puts the target's own tensor in its place."""

    def substitute(name: str, tensor: Named[Any]) -> Named[Any]:
        record[name] = tensor
        own = taps.get(name)
        return tensor if own is None else Named(own.axes, prepare(np.asarray(own.array, dtype=np.float64)))

    return substitute
