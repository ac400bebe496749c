"""One call of one function read over symbolic sizes, with everything that it declares held against it.

An error does not end the reading: what has no value is unknown from there on, and nothing is said
of what depends on it, so that each fault is reported once and every fault is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from conformance.language.axes import ELLIPSIS, fits
from conformance.language.errors import Location, PackError
from conformance.language.evaluate import Invocation, Reading, Scope
from conformance.language.expression import Expression
from conformance.language.names import STATELESS, Value
from conformance.language.program import OTHERWISE, Choices, Equation, Given, holds
from conformance.language.sizes import Size
from conformance.language.symbolic import Shape, Symbolic, size_of, tensor_of
from conformance.language.tensors import AxisError, Named

if TYPE_CHECKING:
    from conformance.language.traces import Call, Checker, Condition, Outcome, Variant

SYMBOLIC = Symbolic()


class _Word:
    """A value that is none: it stands for itself."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


UNKNOWN = _Word("UNKNOWN")
"""The value of what could not be evaluated."""
PRESENT = _Word("PRESENT")
"""An optional input that is given: as its default, with the axes that the declaration leaves open."""


class UnknownError(PackError):
    """Something depends on what could not be evaluated; that has been reported already."""


class _Recorder(dict[str, Any]):
    """A variant's choices, which notes those whose value an expression reads."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)


class CheckedScope(Scope[Shape]):
    """A call under check. `errors` are those of this call's own equations."""

    def __init__(self, checker: Checker, call: Call, variant: Variant) -> None:
        self.checker, self.checked, self.variant = checker, call, variant
        self.recorder = _Recorder(variant.choices)
        reading: Reading[Shape] = Reading(
            checker.program, self.recorder, {}, {}, SYMBOLIC, numbers=checker.numbers
        )
        super().__init__(reading, call.function, "", "", STATELESS if call.stateless else "", dict(call.sizes))
        self.errors: list[PackError] = []
        self.told: dict[Condition, str] = {}
        self.own: dict[str, tuple[Value, str]] = {}
        self.calls: list[tuple[Call, Outcome]] = []
        self.taps: dict[str, Location] = {}
        self.state: dict[str, Value] = {}
        self.open: set[str] = set()
        self.here = call.function.at

    # -- one call -------------------------------------------------------------------------------

    def attempt(self, work: Callable[[], Value], at: Location) -> Value:
        """What `work` returns, or UNKNOWN after an error, which is kept."""
        try:
            return work()
        except UnknownError:
            return UNKNOWN
        except AxisError as error:
            self.errors.append(PackError(str(error), at))
        except PackError as error:
            self.errors.append(error)
        return UNKNOWN

    def begin(self, inputs: Mapping[str, Value]) -> None:
        """As in every reading, and inputs have the axes that are declared for them."""
        function = self.function
        self.checker.entered.add(function.name)
        for name, parameter in function.parameters.items():
            for field, values in parameter.when.items():
                self.ask((field, values))
            if holds(parameter.when, self.variant.choices):
                self.checker.used.add((function.name, name, "when"))
        for name, remembered in function.remember.items():
            value = self.checked.state.get(f":{name}")
            if value is None:
                value = self.attempt(lambda r=remembered, n=name: Scope.recall(self, n, r), remembered.at)
            # Not under check: the past and all that is read, past included, are both along `key`.
            super().bind(name, value)
        for name, given in function.given.items():
            if name in inputs and inputs[name] is not PRESENT:
                value = inputs[name]
                self.leave_open(given, value)
                self.take_in(name, value, given.at)
        for name, given in function.given.items():
            if name not in self.env:
                value = self.attempt(lambda g=given: self.default(g), given.at)
                if name in inputs and isinstance(value, Named):
                    value = self.expanded(given, value)
                self.here = given.at
                self.attempt(lambda n=name, g=given, v=value: self.declared(f"the default of '{n}'", v, g.axes), given.at)
                self.leave_open(given, value)
                self.take_in(name, value, given.at)

    def default(self, given: Given) -> Value:
        """The value of an optional input that is left out."""
        return UNKNOWN if given.otherwise is None else self.evaluate(given.otherwise)

    def expanded(self, given: Given, value: Named[Shape]) -> Named[Shape]:
        """An optional input that is given: of its default's kind and sizes, in all axes it may have."""
        table = self.reading.program.axes
        sizes = self.operations.sizes(value)
        axes = tensor_of(table, given.axes, "any").axes
        return Named(axes, Shape(value.array.kind, tuple(sizes.get(a, size_of(table, a)) for a in axes)))

    def leave_open(self, given: Given, value: Value) -> None:
        """Note which axes `...` stands for in this call."""
        if ELLIPSIS in given.axes and isinstance(value, Named):
            self.open |= set(value.axes) - set(given.axes)

    def take_in(self, name: str, value: Value, at: Location) -> None:
        """Give a value its name, unless it is at odds with what is there."""
        self.here = at
        if value is UNKNOWN:
            self.env[name] = UNKNOWN
            return
        bound = self.attempt(lambda: self.seen(name, value), at)
        if bound is not UNKNOWN:
            self.attempt(lambda: self.bind(name, bound), at)
        self.env.setdefault(name, UNKNOWN)

    def bind_equation(self, equation: Equation) -> None:
        """As in every reading; after an error the tensor has its declared axes, or is unknown."""
        value = self.attempt(lambda: self.equation(equation), equation.at)
        if value is UNKNOWN and self.reading.program.tap(self.function.name, equation.name):
            axes = self.reading.program.tensors[equation.name].axes
            value = self.likely(axes)
        if value is not None:
            self.take_in(equation.name, value, self.place(equation))

    def equation(self, equation: Equation) -> Value:
        """As in every reading, and the alternative is noted."""
        if equation.by:
            self.ask((equation.by, tuple(key for key in equation.alternatives if key != OTHERWISE)))
        self.checker.used.add((self.function.name, equation.name, equation.alternative(self.variant.choices)))
        return super().equation(equation)

    def ask(self, condition: Condition) -> None:
        """Note what this call depends on."""
        self.told[condition] = self.variant.told(condition)

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
        equation, gives = self.function.result, self.function.gives
        at = self.place(equation)

        def checked() -> Value:
            value = self.result()
            wanted = (set(gives) - {ELLIPSIS}) | (self.open if ELLIPSIS in gives else set())
            if set(value.axes) != wanted:
                shown = " ".join(a for axis in gives for a in (sorted(self.open) if axis == ELLIPSIS else [axis]))
                raise PackError(
                    f"{self.function.name} gives [{' '.join(value.axes)}], declared is [{shown}]", at,
                    f"gives: {' '.join(gives)}",
                )
            return value

        value = self.attempt(checked, at)
        return self.likely(gives) if value is UNKNOWN else value

    def likely(self, axes: tuple[str, ...]) -> Value:
        """A tensor of declared axes in place of one with an error, where its sizes are known."""
        names = [a for axis in axes for a in (sorted(self.open) if axis == ELLIPSIS else [axis])]
        sizes = [self.known_size(axis) for axis in names]
        if None in sizes or (ELLIPSIS in axes and not self.open):
            return UNKNOWN
        return Named(tuple(names), Shape("any", tuple(size for size in sizes if size is not None)))

    def keep(self) -> None:
        """Evaluate what is remembered, and hold it against its declared axes."""
        for name, remembered in self.function.remember.items():
            value = self.attempt(lambda r=remembered: self.evaluate(r.value), remembered.at)
            self.here = remembered.at
            self.attempt(
                lambda n=name, r=remembered, v=value: self.declared(f"'{n}'", v, r.axes), remembered.at
            )
            if self.site != STATELESS and value is not UNKNOWN:
                self.state[f":{name}"] = value

    # -- declarations ---------------------------------------------------------------------------

    def declared(self, what: str, value: Value, axes: tuple[str, ...]) -> Value:
        """`value`, which must have the declared axes."""
        if value is UNKNOWN:
            return value
        have = value.axes if isinstance(value, Named) else ()
        if not fits(have, axes):
            raise PackError(f"{what} has axes [{' '.join(have)}], declared are [{' '.join(axes)}]", self.here)
        return value

    def seen(self, name: str, value: Value) -> Value:
        """A tensor that is known outside has its declared axes, and one place in a call."""
        program = self.reading.program
        if not program.tap(self.function.name, name) or value is None:
            return value
        tensor = self.declared(f"'{name}'", self.tensor(value), program.tensors[name].axes)
        self.tap(name)
        return tensor

    def tap(self, path: str) -> None:
        """Note that the tensor `path` is made visible here, which only one place of a call may do."""
        if path in self.taps:
            raise PackError(
                f"the tensor '{path}' is made here and at {self.taps[path]}", self.here, "give one of the calls at='…'"
            )
        self.taps[path] = self.here

    def bind(self, name: str, value: Value) -> None:
        """As in every reading, and an axis has one size in a call."""
        if isinstance(value, Named):
            for axis, size in self.operations.sizes(value).items():
                before, first = self.own.setdefault(axis, (size, name))
                if before != size:
                    raise AxisError(
                        f"axis '{axis}' has size {size} in '{name}' and {before} in '{first}': "
                        "two lengths need two axes"
                    )
        super().bind(name, value)

    # -- names and calls ------------------------------------------------------------------------

    def evaluate(self, expression: Expression) -> Value:
        """As in every reading; what is found on the way knows where it is."""
        self.here = expression.at
        return super().evaluate(expression)

    def name(self, name: str, at: Location) -> Value:
        """As in every reading; what is unknown ends the expression without a further error."""
        value = super().name(name, at)
        if value is UNKNOWN:
            raise UnknownError(f"'{name}' is unknown", at)
        return value

    def parameter(self, name: str, at: Location) -> Value:
        """A tensor of the axes that are declared."""
        del at
        return tensor_of(self.reading.program.axes, self.function.parameters[name].axes, "real")

    def enter(self, call: Invocation[Shape], params: str, at: str, site: str) -> Named[Shape]:
        """The result of a call, evaluated only where it has not been in the same circumstances."""
        del params
        inputs, sizes = self.inward(call)
        for name, value in inputs.items():
            given = call.function.given[name]
            self.declared(f"the input '{name}' of {call.function.name}", value, given.axes)
        stateless = site == STATELESS
        state = {} if stateless else {k[len(site) :]: v for k, v in self.checked.state.items() if _within(k, site)}
        inner = self.checker.call(call.function, inputs, sizes, state, stateless)
        outcome = self.checker.trace(inner, self.variant).outcome
        self.calls.append((inner, outcome))
        for path in outcome.taps:
            self.tap(at + path)
        for path, value in outcome.state:
            if site + path in self.state:
                raise PackError(
                    f"two calls of {call.function.name} remember in the same place", self.here, "give one of them at='…'"
                )
            self.state[site + path] = value
        if outcome.result is None:
            raise UnknownError(f"{call.function.name} has no value", self.here)
        return self.outward(outcome.result, call)


def _within(path: str, site: str) -> bool:
    """Whether a piece of state belongs to a call at `site` or to one inside it."""
    return path.startswith((site + ":", site + "/"))


def same_value(a: Value, b: Value) -> bool:
    """Whether two values are of one kind and the same axes and sizes, in whatever order."""
    if isinstance(a, Named) and isinstance(b, Named):
        return a.array.kind == b.array.kind and dict(zip(a.axes, a.array.sizes, strict=True)) == dict(
            zip(b.axes, b.array.sizes, strict=True)
        )
    return type(a) is type(b) and isinstance(a, int | Size) and bool(a == b)

