"""Making scenarios: the sizes, inputs and parameters that a case has in a variant, drawn from a seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from conformance.language.arithmetic import Array, Float64
from conformance.language.axes import ELLIPSIS
from conformance.language.errors import PackError
from conformance.language.parameters import parameter_axes
from conformance.language.program import Choices, holds
from conformance.language.tensors import Named, Operations
from conformance.pack.model import Case, Draw, Operation, Pack, Variant
from conformance.plan import draws
from conformance.plan.own import Own
from conformance.plan.scenario import Scenario


@dataclass
class Scenarios:
    """Makes scenarios of a pack and keeps them."""

    pack: Pack
    seed: int = 0
    own: Own | None = None
    made: dict[tuple[str, str, str], Scenario] = field(default_factory=dict)

    def of(self, case: Case, variant: Variant, either: Choices | None = None) -> Scenario | None:
        """The scenario of a case in a variant, or None where the case is of other variants."""
        operation = self.pack.operations[case.operation]
        choices = {**variant.choices, **(either or {}), **operation.choices, **case.choices}
        if not holds(case.when, choices):
            return None
        key = (case.id, variant.name, repr(sorted(choices.items())))
        if key not in self.made:
            own = self.own if operation.model else None
            self.made[key] = instantiate(self.pack, operation, case, variant, choices, self.seed, own)
        return self.made[key]


def instantiate(
    pack: Pack,
    operation: Operation,
    case: Case,
    variant: Variant,
    choices: Choices,
    seed: int,
    own: Own | None = None,
) -> Scenario:
    """Draw all inputs and parameters of a case; those of `own` stand. Raises `PackError` where it cannot be made."""
    sizes = axis_sizes(pack, case, choices, own)
    layers = case.sizes.get("N", 1)
    layers = layers if own is None else own.size("n_layers", layers)
    function = operation.function
    if operation.with_context and case.given.get("context") is not None:
        function = operation.with_context
    if own is not None:
        declared = parameter_axes(pack.program, function, choices, layers)
        own = own.fitting({name: tuple(sizes[a] for a in p.axes) for name, p in declared.items()})
    scenario = Scenario(
        pack,
        operation,
        case,
        variant,
        choices,
        seed,
        sizes,
        layers,
        {},
        {},
        case.schedule,
        case.id,
        function,
        own,
    )
    given: dict[str, Named[Array]] = {}
    for name, spec in case.given.items():
        if spec is None or (name == "source" and choices["structure"] != "encoder_decoder"):
            continue
        given[name] = _given(scenario, name, spec, given)
    scenario = replace(scenario, given=given)
    return replace(scenario, parameters=_parameters(scenario))


def axis_sizes(pack: Pack, case: Case, choices: Choices, own: Own | None = None) -> dict[str, int]:
    """The size of each axis: those that the case or the target names, and those that follow from them."""
    symbols = pack.program.axes.by_symbol
    given = dict(case.sizes)
    if own is not None:
        given |= own.symbols(pack)
    if "T" in given:
        given.setdefault("Tq", given["T"])
        given.setdefault("Tk", given["T"])
    if "Dh" in given:
        given.setdefault("Dr", given["Dh"])
        given.setdefault("Np", given["Dh"] // 2)
        if pack.operations[case.operation].taps:
            # What a case gives is the part of a head that turns, so that it stays whole and even.
            given["Dh"] = round(given["Dr"] / choices.get("rotary_fraction", 1))
        given.setdefault("Dv", given["Dh"])
    if "H" in given:
        if not choices.get("grouped_heads") and case.operation != "attention":
            given["Hkv"] = given["H"]
        given.setdefault("Hkv", given["H"])
        if "Dh" in given:
            given.setdefault("D", given["H"] * given["Dh"])
            if choices.get("wide_heads") and "D" not in case.sizes:
                # Three quarters, and even: of its own size beside those of the cases.
                given["D"] = 2 * -(-given["D"] * 3 // 8)
    if "F" in given and "D" in given and pack.operations[case.operation].taps:
        ratio = choices.get("ff_ratio", "none")
        if ratio != "none":
            given["F"] = round(ratio * given["D"])
    if own is not None:
        # What a target is, no choice has to make of a case's sizes.
        brought = own.symbols(pack)
        given |= brought
        if "Dh" in brought:
            turned = round(brought["Dh"] * choices.get("rotary_fraction", 1))
            given["Dr"] = brought.get("Dr", turned)
            given["Np"] = given["Dr"] // 2
    given.setdefault("Tc", given.get("Tq", 1))
    sizes = {symbols[symbol]: size for symbol, size in given.items() if symbol in symbols}
    for axis in pack.program.axes.by_name.values():
        if axis.parts and all(part in sizes for part in axis.parts):
            total = 1
            for part in axis.parts:
                total *= sizes[part]
            sizes[axis.name] = total
    return sizes


def _given(scenario: Scenario, name: str, spec: Draw, before: Mapping[str, Named[Array]]) -> Named[Array]:
    function = scenario.pack.program.functions[scenario.function]
    argument = scenario.operation.arguments.get(name)
    declared = spec.axes or tuple(
        axis
        for axis in (argument.axes if argument and argument.axes else function.given[name].axes)
        if axis != ELLIPSIS
    )
    if spec.form == "expression":
        value = replace(scenario, given=before).evaluate(spec.value, {})
        order = [axis for axis in declared if axis in value.axes]
        return Operations(Float64()).ordered(value, order)
    missing = [axis for axis in declared if axis not in scenario.sizes]
    if missing:
        raise PackError(f"the size of axis '{missing[0]}' of '{name}' is not given", scenario.case.at)
    shape = [scenario.sizes[axis] for axis in declared]
    random = draws.generator(scenario.seed, scenario.case.id, name)
    try:
        return Named(declared, draws.draw(spec, shape, random, scenario.sizes))
    except PackError as error:
        raise PackError(f"'{name}': {error.message}", scenario.case.at) from None


def _parameters(scenario: Scenario) -> dict[str, Named[Array]]:
    """Random values for every parameter that the program reads in this variant."""
    declared = parameter_axes(scenario.pack.program, scenario.function, scenario.choices, scenario.layers)
    parameters = {}
    for name, parameter in declared.items():
        shape = [scenario.sizes[axis] for axis in parameter.axes]
        random = draws.generator(scenario.seed, scenario.case.id, "parameter", name)
        spec = next(
            (s for pattern, s in scenario.case.parameters.items() if fnmatchcase(name, pattern)), None
        )
        brought = None if scenario.own is None else scenario.own.parameters.get(name)
        if spec is None and brought is not None:
            array = brought
        elif spec is None:
            array = draws.parameter(random, shape, parameter.like)
        elif spec.form == "normal":
            array = draws.parameter(random, shape, parameter.like, float(spec.value))
        else:
            array = draws.draw(spec, shape, random, scenario.sizes)
        parameters[name] = Named(parameter.axes, array)
    return parameters
