"""A stage read on the target's own tensors, without the layers that have no part in it.

A mistake is tried on a stage by reading the program with the target's tensors in the place of the program's. Of all
layers but its own nothing is left then but those tensors, so they are not computed only to be replaced: of a model of
twelve layers one is read, and of its weights no more than that layer's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from conformance.judging.spreads import in_place
from conformance.language.arithmetic import Array
from conformance.language.evaluate import Reading, Scope
from conformance.language.names import Value
from conformance.language.pieces import Invocation
from conformance.language.program import Equation, Program
from conformance.language.tensors import Named
from conformance.plan.scenario import Scenario

Taps = Mapping[str, Named[Array]]


class _Enough(Exception):
    """The layer has been read."""


@dataclass
class _Partly(Reading[Array]):
    """A reading of what stands under `prefix`; `own` are the target's tensors by their full names."""

    prefix: str = ""
    own: Taps = field(default_factory=dict)


class _Inside(Scope[Array]):
    """One call, of which nothing is computed that the target has shown and the stage does not ask for."""

    reading: _Partly

    def bind_equation(self, equation: Equation) -> None:
        """As in any reading, or the target's own tensor alone."""
        own = self.reading.own.get(self.at + equation.name)
        known = self.reading.program.tap(self.function.name, equation.name)
        if own is None or not known or not self.elsewhere or equation.pick(self.reading.choices) is None:
            super().bind_equation(equation)
            return
        self.bind(equation.name, Named(own.axes, np.asarray(own.array, np.float64)))

    @property
    def elsewhere(self) -> bool:
        """Whether this is a call of another layer."""
        prefix = self.reading.prefix
        within = bool(prefix) and self.at.startswith(prefix)
        return bool(self.at) and not within and not prefix.startswith(self.at)

    def enter(self, call: Invocation, params: str, at: str, site: str) -> Named[Array]:
        """As in any reading; behind the layer nothing is asked for."""
        inputs, sizes = self.inward(call)
        scope = _Inside(self.reading, call.function, self.params + params, self.at + at, site, sizes)
        scope.operations = self.operations
        result = self.outward(scope.run(inputs), call)
        if scope.at == self.reading.prefix != self.at:
            raise _Enough
        return result


def stages_made(
    scenario: Scenario, program: Program, taps: list[Taps], tap: str
) -> Iterator[dict[str, Named[Any]]]:
    """What a program makes, call by call, of the stages beside `tap`, of the target's own tensors `taps` before them.

    Of a scenario in several calls, all stages: what one call remembers, the next one reads. A call is read when it is
    asked for. Raises as a reading does.
    """
    made: list[dict[str, Named[Any]]] = [{} for _ in taps]

    def kept(array: Array) -> Array:
        return array

    if len(taps) != 1 or scenario.cached:
        calls = scenario.calls(
            scenario.arithmetic, program, lambda i: in_place(taps[i], made[i], kept), keep_taps=False
        )
        for i, _ in enumerate(calls):
            yield made[i]
        return
    whole = scenario.reading(scenario.arithmetic, program, in_place(taps[0], made[0], kept))
    given = {entry.name: getattr(whole, entry.name) for entry in fields(Reading)}
    reading = _Partly(
        **given | {"keep_taps": False}, prefix=tap.removesuffix(tap.rpartition(".")[2]), own=taps[0]
    )
    inputs: dict[str, Value] = dict(scenario.steps()[0])
    with suppress(_Enough):
        _Inside(reading, program.function(scenario.function), "", "", "", dict(reading.sizes)).run(inputs)
    yield made[0]
