"""The program read over symbolic sizes in many variants, each function evaluated as rarely as can be.

Most variants differ in little, and most calls do not see the difference. A `Trace` is one
evaluation of a call: the choices that it asked for itself, and what each call that it made gave.
In another variant where all of that is the same, so is its outcome, and nothing is evaluated again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from conformance.language.checked import UNKNOWN, CheckedScope
from conformance.language.errors import PackError
from conformance.language.names import Value
from conformance.language.program import Choices, Function, Program
from conformance.language.sizes import Dimension
from conformance.language.symbolic import Shape
from conformance.language.tensors import Named


@dataclass(frozen=True, eq=False)
class Outcome:
    """All that a caller can see of a call: result (None after an error), taps, and state by its path."""

    result: Named[Shape] | None
    taps: tuple[str, ...]
    state: tuple[tuple[str, Value], ...]


@dataclass(eq=False)
class Trace:
    """One evaluation of a call, the variants in which it holds, and all errors that are in it."""

    choices: dict[str, Any]
    calls: list[tuple[Call, Outcome]]
    outcome: Outcome
    env: dict[str, Value]
    errors: tuple[PackError, ...]
    variants: list[Choices] = field(default_factory=list)


@dataclass(eq=False)
class Call:
    """A function with inputs, sizes and state: what its outcome depends on, but for the choices."""

    function: Function
    inputs: Mapping[str, Value]
    sizes: Mapping[str, Dimension]
    state: Mapping[str, Value]
    stateless: bool
    traces: list[Trace] = field(default_factory=list)
    variant: Choices | None = None
    trace: Trace | None = None


class Checker:
    """Evaluates calls in variants and keeps what came out."""

    def __init__(self, program: Program, numbers: Mapping[str, float]) -> None:
        """`numbers` are those that the program reads besides sizes and choices."""
        self.program, self.numbers = program, numbers
        self.calls: dict[Any, Call] = {}
        self.outcomes: dict[Any, Outcome] = {}
        self.tensors: dict[Any, Named[Shape]] = {}
        self.entered: set[str] = set()
        self.used: set[tuple[str, str, str]] = set()

    def call(
        self,
        function: Function,
        inputs: Mapping[str, Value],
        sizes: Mapping[str, Dimension],
        state: Mapping[str, Value],
        stateless: bool = False,
    ) -> Call:
        """The call with these circumstances, always the same object."""
        inputs = {name: self.interned(inputs[name]) for name in function.given if name in inputs}
        state = {path: self.interned(value) for path, value in state.items()}
        key = (
            function.name, tuple(inputs.items()), frozenset(sizes.items()), frozenset(state.items()), stateless
        )
        if key not in self.calls:
            self.calls[key] = Call(function, inputs, sizes, state, stateless)
        return self.calls[key]

    def outcome(self, call: Call, choices: Choices) -> Outcome:
        """What a call gives in a variant."""
        return self.trace(call, choices).outcome

    def trace(self, call: Call, choices: Choices) -> Trace:
        """The trace of a call that holds in a variant; evaluates it if there is none yet."""
        if call.variant is choices and call.trace is not None:
            return call.trace
        found = next((trace for trace in call.traces if self.holds(trace, choices)), None)
        if found is None:
            found = self.evaluate(call, choices)
            call.traces.append(found)
        found.variants.append(choices)
        call.variant, call.trace = choices, found
        return found

    def holds(self, trace: Trace, choices: Choices) -> bool:
        """Whether an evaluation in another variant would be the same."""
        return all(choices.get(name) == value for name, value in trace.choices.items()) and all(
            self.outcome(call, choices) is outcome for call, outcome in trace.calls
        )

    def evaluate(self, call: Call, choices: Choices) -> Trace:
        """Evaluate a call in a variant."""
        scope = CheckedScope(self, call, choices)
        scope.begin(call.inputs)
        for equation in call.function.let:
            scope.bind_equation(equation)
        result = scope.finish()
        scope.keep()
        outcome = self.seen(result, scope)
        errors = dict.fromkeys(scope.errors)
        for inner, _ in scope.calls:
            errors.update(dict.fromkeys(self.trace(inner, choices).errors))
        env = {**scope.env, "is": result}
        return Trace(scope.recorder.read, scope.calls, outcome, env, tuple(errors))

    def seen(self, result: Value, scope: CheckedScope) -> Outcome:
        """The outcome with these parts, always the same object."""
        value = None if result is UNKNOWN else self.interned(result)
        state = tuple((path, self.interned(kept)) for path, kept in scope.state.items())
        key = (value, tuple(scope.taps), state)
        return self.outcomes.setdefault(key, Outcome(*key))

    def interned(self, value: Value) -> Value:
        """A tensor of the same axes and array, always the same object."""
        if not isinstance(value, Named):
            return value
        return self.tensors.setdefault((value.axes, value.array), value)
