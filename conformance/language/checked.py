"""One call of one function read over symbolic sizes, with everything that it declares held against it.

An error does not end the reading: what has no value is unknown from there on, and nothing is said
of what depends on it, so that each fault is reported once and every fault is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from conformance.language.axes import ELLIPSIS
from conformance.language.declarations import UNKNOWN, DeclaredScope, UnknownError
from conformance.language.errors import Location, PackError
from conformance.language.evaluate import Reading, Scope
from conformance.language.expression import Expression
from conformance.language.names import STATELESS, Value
from conformance.language.pieces import Invocation
from conformance.language.program import OTHERWISE, Choices, Equation, Given, Remembered
from conformance.language.symbolic import Shape, Symbolic, sizes_of
from conformance.language.tensors import Named, SizeError

if TYPE_CHECKING:
    from conformance.language.traces import Call, Checker, Condition, Outcome, Variant

SYMBOLIC = Symbolic()


@dataclass(frozen=True)
class Present:
    """An optional input that is given: of its default's kind and sizes, in these axes."""

    axes: tuple[str, ...]


class _Recorder(dict[str, Any]):
    """A variant's choices, which notes those whose value an expression reads."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)


class CheckedScope(DeclaredScope):
    """A call under check. `errors` are those of this call's own equations."""

    def __init__(self, checker: Checker, call: Call, variant: Variant) -> None:
        self.checker, self.checked, self.variant = checker, call, variant
        self.recorder = _Recorder(variant.choices)
        reading: Reading[Shape] = Reading(
            checker.program, self.recorder, {}, {}, SYMBOLIC, numbers=checker.numbers
        )
        self.lenient = checker.lenient
        super().__init__(reading, call.function, STATELESS if call.stateless else "", dict(call.sizes))
        self.told: dict[Condition, str] = {}
        self.calls: list[tuple[str, Call, Outcome]] = []
        self.state: dict[str, Value] = {}

    # -- one call -------------------------------------------------------------------------------

    def begin(self, inputs: Mapping[str, Value]) -> None:
        """As in every reading, and inputs have the axes that are declared for them."""
        function = self.function
        self.checker.entered.add(function.name)
        for name, remembered in function.remember.items():
            value = self.checked.state.get(f":{name}")
            if value is None:
                value = self.attempt(partial(self.recall, name, remembered), remembered.at)
            # Not under check: the past and all that is read, past included, are both along `key`.
            Scope.bind(self, name, value)
        given_now = [n for n in function.given if n in inputs and not isinstance(inputs[n], Present)]
        for name in given_now:
            self.take_in(name, inputs[name], function.given[name])
        for name, given in function.given.items():
            if name not in given_now:
                value = self.attempt(partial(self.default, name, given, inputs.get(name)), given.at)
                self.take_in(name, value, given)

    def default(self, name: str, given: Given, present: Present | None) -> Value:
        """The value of an optional input."""
        value = UNKNOWN if given.otherwise is None else self.evaluate(given.otherwise)
        if present and isinstance(value, Named):
            sizes = {
                **dict(sizes_of(self.reading.program.axes, present.axes)),
                **self.operations.sizes(value),
            }
            value = Named(present.axes, Shape(value.array.kind, tuple(sizes[axis] for axis in present.axes)))
        self.here = given.at
        return self.fitting(f"the default of '{name}'", value, given)

    def take_in(self, name: str, value: Value, given: Given) -> None:
        """Bind an input, and note which axes the `...` of its declaration stands for."""
        if ELLIPSIS in given.axes and isinstance(value, Named):
            self.open |= set(value.axes) - set(given.axes)
        self.admit(name, value, given.at)

    def admit(self, name: str, value: Value, at: Location) -> None:
        """Give a value its name, unless it is at odds with what is there."""
        self.here = at
        if value is not UNKNOWN:
            value = self.attempt(partial(self.seen, name, value), at)
        if value is not UNKNOWN:
            self.attempt(partial(self.bind, name, value), at)
        self.env.setdefault(name, UNKNOWN)

    def bind_equation(self, equation: Equation) -> None:
        """As in every reading; after an error the tensor has its declared axes, or is unknown."""
        value = self.attempt(partial(self.equation, equation), equation.at)
        if value is UNKNOWN and self.reading.program.tap(self.function.name, equation.name):
            axes = self.reading.program.tensors[equation.name].axes
            value = self.likely(axes)
        if value is not None:
            self.admit(equation.name, value, self.place(equation))

    def equation(self, equation: Equation) -> Value:
        """As in every reading, and the alternative is noted."""
        if equation.by:
            self.ask((equation.by, tuple(key for key in equation.alternatives if key != OTHERWISE)))
        self.checker.used.add((self.function.name, equation.name, equation.alternative(self.variant.choices)))
        return super().equation(equation)

    def ask(self, condition: Condition) -> None:
        """Note what this call depends on."""
        self.told[condition] = self.variant.told[condition]

    @property
    def conditions(self) -> dict[Condition, str]:
        """All that this call has asked of the variant."""
        for name in self.recorder.read:
            self.ask((name, ()))
        return self.told

    def place(self, equation: Equation) -> Location:
        """Where the expression in force stands."""
        expression = equation.pick(self.variant.choices)
        return equation.at if expression is None else expression.at

    def finish(self) -> Value:
        """The result, of the declared axes, or else as it was declared, or else unknown."""
        value = self.attempt(self.checked_result, self.place(self.function.result))
        return self.likely(self.function.gives) if value is UNKNOWN else value

    def checked_result(self) -> Named[Shape]:
        """The result, which must have the axes that the function is said to give."""
        value, gives = self.result(), self.function.gives
        wanted = [a for axis in gives for a in (sorted(self.open) if axis == ELLIPSIS else [axis])]
        if set(value.axes) != set(wanted):
            raise PackError(
                f"{self.function.name} gives [{' '.join(value.axes)}], declared are [{' '.join(wanted)}]",
                self.here,
                f"gives: {' '.join(gives)}",
            )
        return value

    def keep(self) -> None:
        """Evaluate what is remembered, and hold it against its declared axes."""
        for name, remembered in self.function.remember.items():
            value = self.attempt(partial(self.kept, name, remembered), remembered.at)
            if self.site != STATELESS and value is not UNKNOWN:
                self.state[f":{name}"] = value

    def kept(self, name: str, remembered: Remembered) -> Value:
        """The new value of what is remembered."""
        return self.declared(f"'{name}'", self.evaluate(remembered.value), remembered.axes)

    def again(self, equation: Equation) -> Value:
        """The value of one equation, or UNKNOWN where it has none."""
        if equation is self.function.result:
            return self.finish()
        self.bind_equation(equation)
        return self.env.get(equation.name, UNKNOWN)

    def resume(self, env: Mapping[str, Value], equation: Equation) -> None:
        """Take up a call where it stands just before an equation, with what it had come to in `env`."""
        function = self.function
        before = takewhile(lambda e: e is not equation, (*function.let, function.result))
        for name in (*function.remember, *function.given, *(e.name for e in before)):
            if name in function.remember or env.get(name) is UNKNOWN:
                Scope.bind(self, name, env[name])
            elif name in function.given:
                self.take_in(name, env[name], function.given[name])
            elif name in env:
                self.bind(name, env[name])
        self.taps.clear()
        self.visible.clear()

    def may_pass(self, error: SizeError) -> bool:
        """Whether the checker lets such sizes pass."""
        return self.checker.may_agree(*error.sizes)

    # -- names and calls ------------------------------------------------------------------------

    def evaluate(self, expression: Expression) -> Value:
        """As in every reading; what is found on the way knows where it is."""
        self.here = expression.at
        return super().evaluate(expression)

    def name(self, name: str, at: Location) -> Value:
        """As in every reading; what is unknown ends the expression without a further error."""
        if name in self.function.parameters:
            for condition in self.function.parameters[name].when.items():
                self.ask(condition)
        value = super().name(name, at)
        if value is UNKNOWN:
            raise UnknownError(f"'{name}' is unknown", at)
        return value

    def parameter(self, name: str, at: Location) -> Value:
        """A tensor of the axes that are declared."""
        del at
        return self.checker.parameter(self.function.parameters[name].axes)

    def enter(self, call: Invocation, params: str, at: str, site: str) -> Named[Shape]:
        """The result of a call, evaluated only where it has not been in the same circumstances."""
        del params
        inputs, sizes = self.inward(call)
        for name, value in inputs.items():
            self.fitting(f"the input '{name}' of {call.function.name}", value, call.function.given[name])
        stateless = site == STATELESS
        state = (
            {}
            if stateless
            else {k[len(site) :]: v for k, v in self.checked.state.items() if _within(k, site)}
        )
        inner = self.checker.call(call.function, inputs, sizes, state, stateless)
        standing = self.checker.read(inner, self.variant)
        outcome = standing.traces[0].outcome
        self.calls.append((at, inner, outcome))
        for path in standing.taps:
            self.tap(at + path)
        for path, value in outcome.state:
            if site + path in self.state:
                raise PackError(
                    f"two calls of {call.function.name} remember in the same place",
                    self.here,
                    "give one of them at='…'",
                )
            self.state[site + path] = value
        if outcome.result is None:
            raise UnknownError(f"{call.function.name} has no value", self.here)
        return self.outward(outcome.result, call)


def _within(path: str, site: str) -> bool:
    """Whether a piece of state belongs to a call at `site` or to one inside it."""
    return path.startswith((site + ":", site + "/"))
