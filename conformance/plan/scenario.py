"""A case made concrete for one variant and seed.

What the target is called with, and what the program makes of the same: everything a claim needs
comes from here, so a case is data only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from conformance.language.arithmetic import Array, Float64, NumpyArithmetic
from conformance.language.axes import ELLIPSIS
from conformance.language.evaluate import Reading, Substitute, keep
from conformance.language.program import Choices, Program
from conformance.language.tensors import Named, Operations
from conformance.pack.model import Case, Operation, Pack, Variant
from conformance.plan.own import Own
from conformance.plan.relevance import relevant_choices
from conformance.stored import Stored


@dataclass(frozen=True)
class Tensors:
    """What one call made: named float64 tensors, by output or tap name."""

    outputs: Mapping[str, Named[Array]]
    taps: Mapping[str, Named[Array]]
    inner: Mapping[str, Named[Array]] = field(default_factory=dict)

    def find(self, name: str) -> Named[Array] | None:
        """An output by its name or a tap by its full name; None where there is neither."""
        return self.outputs.get(name, self.taps.get(name))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each output."""
        return {name: tensor.array.shape for name, tensor in self.outputs.items()}


@dataclass(frozen=True, eq=False)
class Scenario:
    """One case, instantiated. `schedule` are the lengths of a model's calls, all in one cache."""

    pack: Pack
    operation: Operation
    case: Case
    variant: Variant
    choices: Choices
    seed: int
    sizes: Mapping[str, int]
    layers: int
    given: Mapping[str, Named[Array]]
    parameters: Mapping[str, Named[Array]]
    schedule: tuple[int, ...] = ()
    name: str = ""
    function: str = ""
    own: Own | None = None
    """What the target brings along, where it does."""
    derived: dict[object, Scenario] = field(default_factory=dict, init=False, repr=False)
    """Scenarios that claims make of this one, by what they change: who grades many makes each once."""

    def derive(self, what: object, make: Callable[[], Scenario]) -> Scenario:
        """The scenario that `make` makes of this one, made once for each `what`."""
        if what not in self.derived:
            self.derived[what] = make()
        return self.derived[what]

    @property
    def sent(self) -> dict[str, Array]:
        """Parameters that the target is given: all, or those that differ from what it brings along."""
        brought = self.own.parameters if self.own is not None else {}
        return {
            name: t.array
            for name, t in self.parameters.items()
            if self.own is None or (name in brought and t.array is not brought[name])
        }

    @cached_property
    def lacking(self) -> str:
        """What keeps a target that brings its own weights from being compared with the program; '' for nothing."""
        if self.own is None:
            return ""
        absent = [name for name in self.parameters if name not in self.own.parameters]
        return next(iter(self.own.missing), "") or (f"it has no {absent[0]}" if absent else "")

    @cached_property
    def key(self) -> str:
        """A hash of all that a reading of this scenario depends on, the program's text excepted.

        Variants that differ in nothing that matters here have the same.
        """
        total = hashlib.sha256()
        choices = relevant_choices(self.pack.program, self.operation, self.function, self.choices)
        total.update(
            repr((self.function, choices, sorted(self.sizes.items()), self.layers, self.schedule)).encode()
        )
        for group in (self.given, self.parameters):
            for name in sorted(group):
                tensor = group[name]
                if self.own is not None and self.own.large and tensor.array is self.own.parameters.get(name):
                    total.update(repr((name, tensor.axes, self.own.digests[name])).encode())
                    continue
                array = np.ascontiguousarray(tensor.array)
                total.update(repr((name, tensor.axes, array.shape, array.dtype.str)).encode())
                total.update(array.tobytes())
        return total.hexdigest()

    @property
    def arithmetic(self) -> Float64:
        """In which expected values are read: float64, but for products with the weights of a large target."""
        return Stored() if self.large else Float64()

    @property
    def large(self) -> bool:
        """Whether the target brings very many weights along."""
        return self.own is not None and self.own.large

    @property
    def cached(self) -> bool:
        """Whether the model's calls share a cache."""
        return len(self.schedule) > 1

    def reading(
        self, arithmetic: NumpyArithmetic, program: Program | None = None, substitute: Substitute = keep
    ) -> Reading[Any]:
        """The program, ready to be read on this scenario's parameters."""
        parameters = {name: Named(t.axes, arithmetic.lift(t.array)) for name, t in self.parameters.items()}
        return Reading(
            program or self.pack.program,
            self.choices,
            self.sizes,
            parameters,
            arithmetic,
            substitute,
            numbers={"n_layers": self.layers},
        )

    def steps(self) -> list[dict[str, Named[Array]]]:
        """The inputs of each call: all at once, or a prompt in chunks."""
        if not self.schedule:
            return [dict(self.given)]
        steps = []
        start = 0
        for length in self.schedule:
            end = start + length
            step = {}
            for name, tensor in self.given.items():
                step[name] = cut(tensor, start, end)
            steps.append(step)
            start = end
        return steps

    def read(
        self,
        arithmetic: NumpyArithmetic,
        program: Program | None = None,
        substitute: Callable[[int], Substitute] | None = None,
        inner: bool = False,
        keep_taps: bool = True,
    ) -> list[Tensors]:
        """The program read call by call; `substitute(i)` stands in for tensors of call i.

        Without `keep_taps` only the main output is kept. With `inner`, tensors that have no name outside and
        the pieces of equations are kept too, as the program laid them out and in the order in which it made them.
        """
        return list(self.calls(arithmetic, program, substitute, inner, keep_taps))

    def calls(
        self,
        arithmetic: NumpyArithmetic,
        program: Program | None = None,
        substitute: Callable[[int], Substitute] | None = None,
        inner: bool = False,
        keep_taps: bool = True,
    ) -> Iterator[Tensors]:
        """As `read`, one call at a time: for who may have seen enough after the first."""
        reading = self.reading(arithmetic, program)
        reading.keep_taps = keep_taps
        for i, step in enumerate(self.steps()):
            reading.substitute = substitute(i) if substitute else keep
            inputs = {name: Named(t.axes, arithmetic.lift(t.array)) for name, t in step.items()}
            reading.inner = {} if inner else None
            result = reading.call(self.function, inputs)
            operations = Operations(arithmetic)
            main = self.main_output
            outputs = {main: self._canonical(operations, result, self.operation.outputs[main])}
            taps = {}
            for name, tensor in reading.taps.items():
                short = name.rpartition(".")[2]
                taps[name] = self._canonical(operations, tensor, self.pack.program.tensors[short].axes)
                if name in self.operation.outputs and name != main:
                    outputs[name] = taps[name]
            yield Tensors(outputs, taps, reading.inner or {})

    @cached_property
    def entered(self) -> frozenset[str]:
        """The functions of the program that a reading of this scenario calls."""
        reading = self.reading(Float64())
        for step in self.steps():
            reading.call(self.function, step)
        return frozenset(reading.entered)

    @property
    def main_output(self) -> str:
        """The output that the program function returns."""
        return next(iter(self.operation.outputs))

    def _canonical(
        self, operations: Operations[Any], tensor: Named[Any], declared: Sequence[str]
    ) -> Named[Any]:
        """Axes in the declared order; those that `...` stands for in the order of the inputs."""
        known = [axis for t in self.given.values() for axis in t.axes if axis in tensor.axes]
        if ELLIPSIS not in declared:
            return operations.ordered(tensor, [axis for axis in declared if axis in tensor.axes])
        if set(known) == set(tensor.axes):
            return operations.ordered(tensor, list(dict.fromkeys(known)))
        named = [axis for axis in declared if axis != ELLIPSIS]
        further = [axis for axis in dict.fromkeys([*known, *tensor.axes]) if axis not in named]
        return operations.ordered(tensor, [*further, *named])

    def evaluate(
        self, expression: Any, names: Mapping[str, Named[Any]], arithmetic: NumpyArithmetic | None = None
    ) -> Named[Any]:
        """An expression of the pack over named tensors, this scenario's inputs among them."""
        chosen = arithmetic or Float64()
        inputs = {n: Named(t.axes, chosen.lift(t.array)) for n, t in self.given.items()}
        value = self.reading(chosen).expression(expression, {**inputs, **names})
        return value if isinstance(value, Named) else Operations(chosen).constant(value)

    def reading_of_choice(self, text: str) -> float:
        """A choice that is an expression, such as `sqrt(D)`, as a number."""
        return float(self.evaluate(text, {}).array)

    def changed(self, **fields: Any) -> Scenario:
        """The same scenario with other inputs, parameters or schedule."""
        return replace(self, **fields)


def cut(tensor: Named[Array], start: int, end: int) -> Named[Array]:
    """What of an input belongs to the call that takes tokens `start` to `end`.

    A mask over keys includes the past; what has no token axis (a source) comes with every call.
    """
    index: list[slice] = [slice(None)] * len(tensor.axes)
    for i, axis in enumerate(tensor.axes):
        if axis == "query":
            index[i] = slice(start, end)
        elif axis == "key":
            index[i] = slice(0, end)
    return Named(tensor.axes, tensor.array[tuple(index)])
