"""The program itself as a target, right or with a mistake made, read in a native dtype.

No process, no adapter: a claim that stays green on the true program and turns red on a mistake is
a claim that works.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from conformance.judging.bench import Bench
from conformance.judging.count import PARAMETER_SHAPES
from conformance.judging.observe import Observation
from conformance.language.arithmetic import Array, Native
from conformance.language.errors import PackError
from conformance.language.program import Program, Text
from conformance.language.tensors import Named
from conformance.plan.scenario import Scenario, Tensors
from conformance.results.records import Judgement
from conformance.session import (
    Call,
    NotOffered,
    Offer,
    OperationCall,
    Outcome,
    Output,
    Raised,
    Returned,
    Signature,
)

BEHAVIOURS = ("modifies-inputs", "answers-differ", "accepts-anything", "miscounts", "shares-caches")
"""Ways to be wrong that no equation can express; each is a target that misbehaves in one of them."""


def offer_of(names: list[str]) -> Offer:
    """An offer of everything, as a bundled program makes it."""
    any_call = Signature((), (), True, None, None)
    return Offer(
        framework="numpy",
        dtypes=("float32",),
        dtype_declared=True,
        variants=(),
        fully_masked="zero",
        functions=dict.fromkeys((*names, PARAMETER_SHAPES), any_call),
        not_callable={},
        others=(),
        parameter_shapes=True,
        versions={},
        printed="",
        seconds=0.0,
    )


class NoSession:
    """Stands where a session would: the program is read, never called."""

    def call(self, call: Call, dtype: str) -> Outcome:
        """Nothing is offered."""
        del call, dtype
        return NotOffered(reason="the program is read, not called")


class ProgramSession(NoSession):
    """The session of `conformance run program`: nothing is started, everything is offered."""

    isolation = "none: the program of the pack is read, nothing of anybody's runs"
    seconds_inside = 0.0
    printed = ""

    def __init__(self, names: list[str], variants: Sequence[str]) -> None:
        """`names` are the functions that a pack knows, `variants` those that it names."""
        self.offered = replace(offer_of(names), variants=tuple(variants))

    def open(self) -> Offer:
        """What is offered."""
        return self.offered


@dataclass
class ProgramBench(Bench):
    """A bench whose target is `program` (patched or not), with a `behaviour` of `BEHAVIOURS`."""

    program: Program | None = None
    behaviour: str = ""

    def observe(self, scenario: Scenario, dtype: str, repetition: int = 0) -> Observation:
        """What the program makes of a scenario in the dtype."""
        key = (scenario.key, dtype, True, repetition)
        if key not in self.observed:
            self.observed[key] = self._read(scenario, dtype, repetition)
        return self.observed[key]

    def interleave(self, scenario: Scenario, other: Scenario, dtype: str) -> Observation:
        """Readings have a state each, so they cannot disturb each other; unless that is the behaviour."""
        return self.observe(other if self.behaviour == "shares-caches" else scenario, dtype)

    def ask(self, call: Call, scenario: Scenario, dtype: str) -> Outcome:
        """An error for a spoilt argument, and the shapes of the scenario's parameters."""
        del dtype
        assert isinstance(call, OperationCall)
        if call.function == PARAMETER_SHAPES:
            shapes = {name: t.array.shape for name, t in scenario.parameters.items()}
            if self.behaviour == "miscounts":
                shapes = {name: (*shape, 2) for name, shape in shapes.items()}
            total = float(sum(prod(shape) for shape in shapes.values()))
            taps = {name: np.asarray(shape) for name, shape in shapes.items()}
            return Returned(outputs=(Output({"output": np.array([total])}, {"output": (1,)}, {}, taps),))
        if self.behaviour == "accepts-anything":
            return Returned(outputs=(Output({}, {"output": (1,)}, {}),))
        return Raised(type="ValueError", message="shapes do not fit")

    def _read(self, scenario: Scenario, dtype: str, repetition: int) -> Observation:
        try:
            steps = scenario.read(Native(dtype), self.program)
        except (PackError, ValueError, IndexError) as error:
            # A mistake may not fit every size: then it is an error, as it would be in real code.
            said = f"it raised an error: {error}"
            return Observation(failed=Judgement("error", Text(said, f"抛出异常：{error}")))
        offered = self.session_tensors(scenario)
        seen = []
        shapes = {}
        for step, want in zip(steps, self.expected(scenario), strict=True):
            outputs, taps = {}, {}
            for name, tensor in step.outputs.items():
                own = self._aligned(tensor, want.outputs[name])
                if own is None:
                    shapes[name] = (want.outputs[name].array.shape, tensor.array.shape)
                else:
                    outputs[name] = own
            for name, tensor in step.taps.items():
                if name.rpartition(".")[2] not in offered or name not in want.taps:
                    continue
                own = self._aligned(tensor, want.taps[name])
                if own is None:
                    shapes[name] = (want.taps[name].array.shape, tensor.array.shape)
                else:
                    taps[name] = own
            seen.append(Tensors(outputs, taps if scenario.operation.taps else {}))
        found = Observation(tuple(seen), None, shapes)
        if self.behaviour == "modifies-inputs":
            found = replace(found, modified=(next(iter(scenario.given)),))
        if self.behaviour == "answers-differ" and repetition:
            found = replace(
                found,
                steps=tuple(
                    Tensors({n: Named(t.axes, t.array * 1.5 + 1) for n, t in s.outputs.items()}, s.taps)
                    for s in found.steps
                ),
            )
        return found

    @staticmethod
    def session_tensors(scenario: Scenario) -> frozenset[str]:
        """Names that a target may make visible."""
        return frozenset(name for name, t in scenario.pack.program.tensors.items() if t.offered)

    @staticmethod
    def _aligned(tensor: Named[Array], want: Named[Array]) -> Named[Array] | None:
        """A patched tensor with the axes of the true one, repeated where it lost one; None if it cannot."""
        if set(tensor.axes) - set(want.axes):
            return None
        present = [axis for axis in want.axes if axis in tensor.axes]
        array = tensor.array.transpose([tensor.axes.index(axis) for axis in present])
        sizes = iter(array.shape)
        shape = [next(sizes) if axis in present else 1 for axis in want.axes]
        try:
            return Named(want.axes, np.broadcast_to(array.reshape(shape), want.array.shape))
        except ValueError:
            return None
