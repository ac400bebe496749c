"""The program as an ONNX model: with or without a cache, true or with a mistake in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from conformance.exporting.emission import Emission
from conformance.exporting.graph import Graph, Type
from conformance.exporting.graph import Value as Emitted
from conformance.exporting.lengths import Lengths
from conformance.exporting.names import KEPT, PAST, input_name, past_name, present_name
from conformance.exporting.operators import operators_of
from conformance.exporting.reading import EmittingReading
from conformance.language.arithmetic import Array
from conformance.language.program import Program
from conformance.language.sizes import Dimension, Size
from conformance.language.symbolic import axes_of_input
from conformance.language.tensors import Named
from conformance.onnx.own_words import words
from conformance.pack.model import Pack, Variant
from conformance.plan.scenario import Scenario

if TYPE_CHECKING:
    import onnx

TYPES: dict[str, Type] = {"bool": "int64", "int64": "int64"}
"""What an input is outside of the graph by what the program has: masks come as whole numbers."""


@dataclass(frozen=True)
class Wanted:
    """What is asked for.

    `scenario` brings the program, with its mistake, the variant, the sizes and the weights.
    """

    scenario: Scenario
    further: Mapping[str, Named[Array]] = field(default_factory=dict)
    """Weights that the program without its mistake would have, too."""
    patched: frozenset[tuple[str, str]] = frozenset()
    """The equations that a mistake replaces: what stands for an optional input may be one."""
    cache: bool = False
    dtype: Type = "float32"
    opset: int = 18

    @property
    def program(self) -> Program:
        """The program that is written."""
        return self.scenario.pack.program


def emit(wanted: Wanted) -> onnx.ModelProto:
    """The model. Raises `PackError` where the program cannot be read so, as with a mistake that does not fit."""
    bare = _Writing(wanted)
    bare.read()
    past = bare.reading.state if wanted.cache else {}
    made = _Writing(wanted, bare.reading.seen_kinds, past)
    made.read()
    if wanted.cache and not made.grows:
        made = _Writing(wanted, bare.reading.seen_kinds, past, apart=True)
        made.read()
    variant = wanted.scenario.variant.name
    metadata = {"program": f"{wanted.scenario.pack.id} {wanted.scenario.pack.version}"}
    metadata |= words(
        declaration(wanted.scenario.pack, wanted.scenario.variant), config_sizes(wanted.scenario)
    )
    return made.graph.model(f"{variant}-program", metadata)


def declaration(pack: Pack, variant: Variant) -> str | dict[str, Any]:
    """A variant as an adapter would declare it: a name, or a base and what differs."""
    base = variant.name.partition("+")[0]
    if base not in pack.variants:
        return dict(variant.choices)
    own = pack.variants[base].choices
    differs = {name: value for name, value in variant.choices.items() if own[name] != value}
    return {"base": base, **differs} if differs else base


def config_sizes(scenario: Scenario) -> dict[str, int]:
    """Its sizes by the names of `config`."""
    axes = scenario.pack.program.axes.by_name
    sizes = {axes[name].config: size for name, size in scenario.sizes.items() if axes[name].config}
    return {**sizes, "n_layers": scenario.layers}


class _Writing:
    """One reading of the model as a graph.

    `kinds` are those of the optional inputs; without, these are left out, and it is found what stands for
    them. `before` is the state that a call without any has left: what the next one finds, with as many
    tokens in it as came before. `apart` is for a mistake by which a cache does not hold all of these.
    """

    def __init__(
        self,
        wanted: Wanted,
        kinds: Mapping[str, str] | None = None,
        before: Mapping[str, Any] | None = None,
        apart: bool = False,
    ) -> None:
        self.wanted, self.kinds, self.before, self.apart = wanted, kinds, before or {}, apart
        self.graph = Graph(wanted.opset)
        self.lengths = Lengths(self.graph)
        self.emission = Emission(self.graph, self.lengths, wanted.dtype)
        scenario = wanted.scenario
        axes = scenario.pack.program.axes.by_name
        self.reading = EmittingReading(
            wanted.program,
            scenario.choices,
            {name: size for name, size in scenario.sizes.items() if axes[name].config or axes[name].parts},
            {
                name: Named(t.axes, self.graph.weight(name, t.array, wanted.dtype))
                for name, t in {**wanted.further, **scenario.parameters}.items()
            },
            self.emission,
            numbers={"n_layers": scenario.layers},
            operators=operators_of(wanted.opset),
        )

    def read(self) -> None:
        """Write the whole graph."""
        self._recall()
        function = self.wanted.program.function(self.wanted.scenario.function)
        inputs: dict[str, Named[Emitted]] = {}
        for name, given in function.given.items():
            if self._left_out(name):
                continue
            axes = axes_of_input(self.wanted.program.axes, given.axes)
            sizes = [self._extent(axis) for axis in axes]
            kind = self.kinds[name] if self.kinds and given.optional else "int64"
            value = self.graph.input(input_name(name), TYPES.get(kind, self.wanted.dtype), sizes)
            for i, size in enumerate(sizes):
                if isinstance(size, Size) and str(size) not in self.lengths.sources:
                    self.lengths.of_axis(str(size), value, i)
            self.graph.place = "inputs"
            inputs[name] = Named(axes, self.emission.cast(value, "bool") if kind == "bool" else value)
        self._past_length(inputs)
        result = self.reading.call(self.wanted.scenario.function, inputs)
        output = self.wanted.scenario.main_output
        laid = self.reading.operations(self.emission).ordered(
            result, self.wanted.scenario.operation.outputs[output]
        )
        self.graph.output(laid.array, output)
        if self.wanted.cache:
            self._remember()

    def _left_out(self, name: str) -> bool:
        """Whether an input is none of the graph: one that the scenario has not, or that a mistake makes."""
        scenario = self.wanted.scenario
        if not self.wanted.program.function(scenario.function).given[name].optional:
            return False
        if self.kinds is None or (name == "source" and name not in scenario.given):
            return True
        return (scenario.function, name) in self.wanted.patched

    def _extent(self, axis: str) -> Dimension:
        """The size of an axis of an input: fixed by the config, or free."""
        axes = self.wanted.program.axes.by_name
        if axis == "key":
            past = Size.symbol(PAST) if self.before else 0
            return past + Size.symbol("query")
        return self.reading.sizes.get(axis, Size.symbol(axis)) if axes[axis].config else Size.symbol(axis)

    # -- the cache -------------------------------------------------------------------------------

    def _grown(self, size: Dimension, apart: bool) -> Dimension:
        """A size of what is remembered, when as many tokens as came before have been read."""
        if not isinstance(size, Size) or "query" not in size.names():
            return size
        symbol = Size.symbol(KEPT if apart else PAST)
        grown: Dimension = 0
        for monomial, coefficient in size.terms:
            term: Dimension = 1
            for name, power in monomial:
                for _ in range(power):
                    term = term * (symbol if name == "query" else Size.symbol(name))
            grown = grown + term * int(coefficient)
        return grown

    def _recall(self) -> None:
        """What comes in as state: tensors as inputs, lengths as what they are made of."""
        for i, (site, entries) in enumerate(_by_site(self.before).items()):
            for name, value in entries.items():
                key = f"{site}:{name}"
                if not isinstance(value, Named):
                    self.reading.state[key] = self._grown(value, False)
                    continue
                kept = self._declared(name, value)
                sizes = [self._grown(size, self.apart) for size in kept.array.sizes]
                made = self.graph.input(past_name(self._layer(i), name), kept.array.type, sizes)
                self.reading.state[key] = Named(kept.axes, made)
                for axis, size in enumerate(sizes):
                    if isinstance(size, Size) and str(size) not in self.lengths.sources:
                        self.lengths.of_axis(str(size), made, axis)

    def _declared(self, name: str, value: Named[Emitted]) -> Named[Emitted]:
        """What is remembered, with its axes as its function declares them."""
        for function in self.wanted.program.functions.values():
            remembered = function.remember.get(name)
            if remembered is not None and set(remembered.axes) == set(value.axes):
                sizes = dict(zip(value.axes, value.array.sizes, strict=True))
                return Named(
                    remembered.axes, replace(value.array, sizes=tuple(sizes[a] for a in remembered.axes))
                )
        return value

    def _layer(self, i: int) -> int:
        """Sites with tensors, counted: the model's own length is no layer."""
        sites = list(_by_site(self.before).values())
        return sum(any(isinstance(v, Named) for v in entries.values()) for entries in sites[:i])

    def _past_length(self, inputs: Mapping[str, Named[Emitted]]) -> None:
        """How many tokens came before, where no cache tells: those of the mask but for this call's."""
        if not self.before or PAST in self.lengths.sources:
            return
        (mask, every) = next(
            (v, t.axes.index("key"))
            for v in self.graph.inputs
            for name, t in inputs.items()
            if v.name == input_name(name) and "key" in t.axes
        )

        def before() -> Emitted:
            parts = [self.lengths.extent(mask, every), self.lengths.value(Size.symbol("query"))]
            return self.graph.node("Sub", parts, "int64", ())

        self.lengths.sources[PAST] = before

    @property
    def grows(self) -> bool:
        """Whether a call leaves what the next one expects: as much more as it has read."""
        for key, value in self.reading.state.items():
            before = self.before.get(key)
            if isinstance(value, Named) and isinstance(before, Named):
                for old, new in zip(before.array.sizes, value.array.sizes, strict=True):
                    wanted = self._grown(old, False)
                    if old != wanted and new != wanted + Size.symbol("query"):
                        return False
        return True

    def _remember(self) -> None:
        """What goes out as state, with its axes as they come in."""
        operations = self.reading.operations(self.emission)
        for i, (site, entries) in enumerate(_by_site(self.before).items()):
            for name, value in entries.items():
                if isinstance(value, Named):
                    axes = self._declared(name, value).axes
                    kept = operations.ordered(self.reading.state[f"{site}:{name}"], axes)
                    self.graph.output(kept.array, present_name(self._layer(i), name))


def _by_site(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What is remembered, by the place of the call that remembers it."""
    sites: dict[str, dict[str, Any]] = {}
    for key, value in state.items():
        site, _, name = key.rpartition(":")
        sites.setdefault(site, {})[name] = value
    return sites
