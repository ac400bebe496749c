"""The evaluator as a graph needs it: axes in the order in which people write them, operators of ONNX for functions.

Nothing here knows an equation. Where ONNX has an operator that computes what the equations of a function say,
the operator stands in the graph (`operators`); what comes of that is checked against the program afterwards,
like all the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from conformance.exporting.emission import Emission
from conformance.exporting.graph import Value as Emitted
from conformance.exporting.operators import Operators
from conformance.language.evaluate import Reading, Scope
from conformance.language.names import Value
from conformance.language.pieces import Invocation
from conformance.language.program import Equation, Function, Program
from conformance.language.sizes import Dimension
from conformance.language.tensors import Named, Operations


def layout(program: Program) -> dict[str, int]:
    """A place for each axis, so that every tensor that the pack names is laid out as the pack writes it."""
    axes = program.axes.by_name
    before: dict[str, set[str]] = {axis: set() for axis in axes}
    for tensor in program.tensors.values():
        named = [axis for axis in tensor.axes if axis in before]
        for i, axis in enumerate(named):
            before[axis].update(named[:i])
    followed = set().union(*before.values())
    # Where nothing else decides, features come last, and before them sizes that a config fixes: heads, then tokens.
    known = sorted(axes, key=lambda axis: (axis not in followed, not axes[axis].config))
    order: dict[str, int] = {}
    while len(order) < len(known):
        ready = [axis for axis in known if axis not in order and before[axis] <= order.keys()]
        # Tensors whose axes stand in contrary orders leave the choice to the list of axes.
        order[ready[0] if ready else next(axis for axis in known if axis not in order)] = len(order)
    return order


@dataclass(frozen=True)
class Laid(Operations[Emitted]):
    """The language's operations, with the axes of results in a given order; `named` are those of named tensors."""

    order: Mapping[str, int]
    named: frozenset[str]

    def in_result(self, axes: Iterable[str]) -> tuple[str, ...]:
        """In one order for all, whatever they are met in."""
        return tuple(sorted(axes, key=self.order.__getitem__))

    def dot(self, x: Named[Emitted], y: Named[Emitted], over: Sequence[str]) -> Named[Emitted]:
        """As in the language, but for the order of the result's axes."""
        product = super().dot(x, y, over)
        return self.ordered(product, self.in_result(product.axes))

    def split(
        self, x: Named[Emitted], axis: str, into: Sequence[str], size: Callable[[str], Dimension | None]
    ) -> Named[Emitted]:
        """As in the language; heads come before the tokens at once."""
        parts = super().split(x, axis, into, size)
        return self.ordered(parts, self.in_result(parts.axes)) if set(parts.axes) <= self.named else parts


@dataclass
class EmittingReading(Reading[Emitted]):
    """A reading that writes a graph. `operators` stand for the functions that have their form."""

    operators: Operators = field(default_factory=lambda: Operators(()))
    seen_kinds: dict[str, str] = field(default_factory=dict)
    """What the defaults of optional inputs of the outermost function hold: bool, int64 or a real type."""

    def operations(self, arithmetic: Emission) -> Laid:
        """The operations in an arithmetic."""
        named = frozenset(axis for tensor in self.program.tensors.values() for axis in tensor.axes)
        return Laid(arithmetic, self.order, named)

    def __post_init__(self) -> None:
        """The order of axes is that of the pack."""
        self.order = layout(self.program)

    def call(self, name: str, inputs: Mapping[str, Value]) -> Named[Emitted]:
        """As any reading; inputs are values of the graph."""
        self.taps, self.counted = {}, {}
        return EmittingScope(self, self.program.function(name), "", "", "", dict(self.sizes)).run(
            dict(inputs)
        )


class EmittingScope(Scope[Emitted]):
    """One call of a function; nodes are called after the equation that they are of."""

    reading: EmittingReading

    def __init__(
        self,
        reading: EmittingReading,
        function: Function,
        params: str,
        at: str,
        site: str,
        sizes: dict[str, Dimension],
    ) -> None:
        """As any scope."""
        super().__init__(reading, function, params, at, site, sizes)
        self.emission: Emission = reading.arithmetic  # type: ignore[assignment]  # the only one there is
        self.operations = reading.operations(self.emission)

    def begin(self, inputs: Mapping[str, Value]) -> None:
        """As any call; what optional inputs hold is noted of the outermost."""
        super().begin(inputs)
        if not self.site:
            for name, given in self.function.given.items():
                value = self.env.get(name)
                if given.optional and isinstance(value, Named):
                    self.reading.seen_kinds[name] = value.array.type

    def equation(self, equation: Equation) -> Value:
        """The value of an equation; its nodes are called after it."""
        graph = self.emission.graph
        before, graph.place = graph.place, f"{self.at}{self.function.name}.{equation.name}"
        narrow = self.operations
        expression = equation.pick(self.reading.choices)
        if equation.at_least_float32:
            self.operations = self.reading.operations(self.emission.widened())
        try:
            return None if expression is None else self.evaluate(expression)
        finally:
            self.operations, graph.place = narrow, before

    def seen(self, name: str, value: Value) -> Value:
        """A tensor that is known outside is called so in the graph."""
        made = super().seen(name, value)
        program = self.reading.program
        if made is not None and program.tap(self.function.name, name):
            tensor = self.tensor(made)
            if tensor.axes == program.tensors[name].axes:  # of a mistake it may have others
                self.emission.graph.title(tensor.array, self.at + name)
        return made

    def enter(self, call: Invocation, params: str, at: str, site: str) -> Named[Emitted]:
        """Evaluate a call, as one operator where there is one."""
        inputs, sizes = self.inward(call)
        scope = EmittingScope(self.reading, call.function, self.params + params, self.at + at, site, sizes)
        scope.operations = self.operations
        made = self.reading.operators.written(scope, inputs)
        if made is not None:
            self.reading.entered.add(call.function.name)
            return self.outward(made, call)
        return self.outward(scope.run(inputs), call)
