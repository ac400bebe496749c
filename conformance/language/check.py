"""The static check of a program: read over symbolic sizes in every variant worth reading it in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conformance.language.checked import PRESENT
from conformance.language.errors import PackError, suggestion
from conformance.language.names import Value
from conformance.language.naming import faults_of_mistakes, faults_of_names
from conformance.language.patches import Contexts, faults_of_patch
from conformance.language.program import OTHERWISE, Choices, Equation, Function, Program, key_of
from conformance.language.sizes import Dimension, Size
from conformance.language.symbolic import Kind, Shape, fixed_sizes, tensor_of
from conformance.language.tensors import Named
from conformance.language.traces import Call, Checker, Variant

NUMBERS = {"n_layers": 2}
"""What the program reads besides sizes and choices: with two layers, one follows another."""


def explored(named: Iterable[Choices], values: Mapping[str, Sequence[Any]]) -> tuple[Choices, ...]:
    """The variants that a check reads: those named, and each with one choice changed.

    Args:
        named: The variants that have a name, complete.
        values: The values that each choice may have; none for one that is a number.

    Returns:
        The named ones first, none twice.
    """
    found: dict[tuple[tuple[str, Any], ...], Choices] = {}
    variants = [dict(choices) for choices in named]
    for variant in [*variants, *({**v, name: x} for v in variants for name, xs in values.items() for x in xs)]:
        key = tuple(sorted((name, key_of(value)) for name, value in variant.items()))
        found.setdefault(key, variant)
    return tuple(found.values())


def check(
    program: Program, variants: Sequence[Choices], entry_points: Mapping[str, Mapping[str, Kind]]
) -> tuple[PackError, ...]:
    """Every fault of a program that shows without data, in the order of the files.

    Args:
        program: The program with its mistakes, each of which is checked like the program itself.
        variants: The variants to read it in; see `explored`.
        entry_points: The functions that are called from outside, each with the kinds of those
            inputs that are not real. An optional input is of the kind of its default.

    Returns:
        One error for each place at fault; empty for a sound program.
    """
    static = faults_of_names(program, variants, entry_points)
    if any(error.message.endswith("calls itself") for error in static):
        return _sorted(static)
    checker = Checker(program, NUMBERS)
    roots = _read(checker, [Variant.of(choices) for choices in variants], entry_points)
    read = [error for call in checker.calls.values() for trace in call.traces for error in trace.errors]
    errors = [*static, *_by_place(read), *_unreached(program, variants, checker)]
    contexts = Contexts(checker, roots, variants)
    for mistake in program.mistakes.values():
        faults = faults_of_mistakes(program, mistake, variants)
        errors.extend(faults or faults_of_patch(contexts, mistake))
    return _sorted(errors)


def _read(
    checker: Checker, variants: Sequence[Variant], entry_points: Mapping[str, Mapping[str, Kind]]
) -> list[Call]:
    """Call every entry point in every variant, and what remembers something once more."""
    program = checker.program
    sizes = fixed_sizes(program.axes)
    roots: list[Call] = []
    for name, kinds in entry_points.items():
        function = program.functions.get(name)
        if function is None:
            continue
        for form in _forms(function):
            call = checker.call(function, _inputs(program, function, kinds, form), sizes, {})
            again = _inputs(program, function, kinds, form, again=True) if function.remember else {}
            roots.append(call)
            for variant in variants:
                outcome = checker.trace(call, variant).outcome
                if again:
                    second = checker.call(function, again, sizes, dict(outcome.state))
                    checker.trace(second, variant)
                    if second not in roots:
                        roots.append(second)
    return roots


def _forms(function: Function) -> list[frozenset[str]]:
    """Which optional inputs are given: none, and all."""
    optional = frozenset(name for name, given in function.given.items() if given.optional)
    return [frozenset(), optional] if optional else [frozenset()]


def _inputs(
    program: Program, function: Function, kinds: Mapping[str, Kind], form: frozenset[str], again: bool = False
) -> dict[str, Value]:
    """Inputs of a call from outside; in a second call, all lengths that nothing fixes are new."""
    kept = {axis for r in program.functions.values() for state in r.remember.values() for axis in state.axes}

    def size(axis: str, size: Dimension) -> Dimension:
        new = again and axis not in kept and not program.axes.by_name[axis].config
        return Size.symbol(f"{size}'") if new and isinstance(size, Size) else size

    inputs: dict[str, Value] = {name: PRESENT for name in form}
    for name, given in function.given.items():
        if not given.optional:
            tensor = tensor_of(program.axes, given.axes, kinds.get(name, "real"))
            sizes = tuple(map(size, tensor.axes, tensor.array.sizes))
            inputs[name] = Named(tensor.axes, Shape(tensor.array.kind, sizes))
    return inputs


def _unreached(program: Program, variants: Sequence[Choices], checker: Checker) -> list[PackError]:
    """Alternatives and parameters that no variant comes to."""
    errors = []
    for function, equation in program.equations():
        if function.name not in checker.entered or not _known(equation, variants):
            continue
        for key, expression in equation.alternatives.items():
            if (function.name, equation.name, key) not in checker.used:
                what = "nothing is left for 'else'" if key == OTHERWISE else f"no variant comes here with {equation.by} {key}"
                errors.append(PackError(f"{what}, in '{equation.name}' of {function.name}", expression.at))
    for function in program.functions.values():
        for name, parameter in function.parameters.items():
            if function.name in checker.entered and (function.name, name, "when") not in checker.used:
                errors.append(PackError(f"no variant has the parameter '{name}' of {function.name}", parameter.at))
    return errors


def _known(equation: Equation, variants: Sequence[Choices]) -> bool:
    """Whether the equation's choice and alternatives exist; where not, that is the fault to report."""
    values = {key_of(variant.get(equation.by)) for variant in variants}
    return all(key in values or key == OTHERWISE for key in equation.alternatives) if equation.by else True


def _by_place(errors: Iterable[PackError]) -> list[PackError]:
    places: dict[object, PackError] = {}
    for error in errors:
        places.setdefault(error.at, error)
    return list(places.values())


def _sorted(errors: Iterable[PackError]) -> tuple[PackError, ...]:
    unique = {(error.at, error.message): error for error in errors}
    return tuple(sorted(unique.values(), key=lambda e: (e.at.file, e.at.line, e.at.column)))


__all__ = ["NUMBERS", "check", "explored", "suggestion"]
