"""The static check of a program: read over symbolic sizes in every variant worth reading it in.

Nothing here needs data, and nothing is read twice that comes to the same: see `traces` for the
program itself and `patches` for its mistakes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conformance.language.contexts import Contexts
from conformance.language.entries import EntryPoint, explored, roots
from conformance.language.errors import NOWHERE, PackError, suggestion
from conformance.language.naming import faults_of_cycles, faults_of_mistake, faults_of_names, values_of
from conformance.language.patches import faults_of_patch
from conformance.language.program import OTHERWISE, Choices, Equation, Program, holds
from conformance.language.traces import Checker, Variant

__all__ = ["NUMBERS", "EntryPoint", "check", "explored"]

NUMBERS = {"n_layers": 2}
"""What the program reads besides sizes and choices: with two layers, one follows another."""


def check(
    program: Program,
    variants: Sequence[Choices],
    entry_points: Iterable[EntryPoint],
    principal: Sequence[Choices] = (),
) -> tuple[PackError, ...]:
    """Every fault of a program that shows without data, in the order of the files.

    Unknown names, axes, parameters and functions; results, inputs, tensors and state of other axes
    than declared; sizes and kinds that do not fit; alternatives that no variant comes to; names
    with two meanings or none; patches that are wrong in any of this, or that change nothing.

    Args:
        program: The program with its mistakes, each of which is checked like the program itself.
        variants: The variants to read it in; see `explored`.
        entry_points: The functions that are called from outside.
        principal: The variants in which it is looked at, too, what a mistake does to all that is
            downstream of it; its own equations are read in every variant.

    Returns:
        One error for each place at fault; empty for a sound program.
    """
    errors = faults_of_cycles(program)
    entries = []
    for entry in entry_points:
        if entry.function in program.functions:
            entries.append(entry)
        else:
            hint = suggestion(entry.function, program.functions)
            errors.append(PackError(f"unknown function '{entry.function}'", NOWHERE, hint))
    if errors:
        return _sorted(errors)
    errors.extend(faults_of_names(program, variants, [entry.function for entry in entries], NUMBERS))
    checker = Checker(program, NUMBERS)
    ways = roots(program, entries, variants, principal or variants[:1])
    found = [error for root in ways for error in root.read(checker, root.variants)]
    errors.extend({error.at: error for error in reversed(found)}.values())
    errors.extend(_unreached(program, variants, checker))
    contexts = Contexts(checker, ways)
    values = values_of(variants)
    for mistake in program.mistakes.values():
        errors.extend(faults_of_mistake(program, mistake, values) or faults_of_patch(contexts, mistake))
    return _sorted(errors)


def _unreached(program: Program, variants: Sequence[Choices], checker: Checker) -> list[PackError]:
    """Alternatives and parameters that no variant comes to."""
    errors = []
    values = values_of(variants)
    for function, equation in program.equations():
        if function.name not in checker.entered or not _known(equation, values):
            continue
        for key, expression in equation.alternatives.items():
            if (function.name, equation.name, key) not in checker.used:
                what = f"no variant comes here with {equation.by}: {key}"
                if key == OTHERWISE:
                    what = "nothing is left for 'else'"
                place = f"in '{equation.name}' of {function.name}"
                errors.append(PackError(f"{what}, {place}", expression.at, "remove it"))
    come: dict[str, set[Variant]] = {}
    for call in checker.calls.values():
        for trace in call.traces:
            come.setdefault(call.function.name, set()).update(trace.variants)
    for name, here in come.items():
        for parameter, declared in program.functions[name].parameters.items():
            known = all(set(wanted) <= values.get(field, set()) for field, wanted in declared.when.items())
            if known and not any(holds(declared.when, variant.choices) for variant in here):
                what = f"no variant that comes here has the parameter '{parameter}' of {name}"
                errors.append(PackError(what, declared.at, "remove it"))
    return errors


def _known(equation: Equation, values: dict[str, set[str]]) -> bool:
    """Whether the equation's choice and alternatives exist; where not, that is the fault to report."""
    keys = set(equation.alternatives) - {OTHERWISE}
    return not equation.by or keys <= values.get(equation.by, set())


def _sorted(errors: Iterable[PackError]) -> tuple[PackError, ...]:
    unique = {(error.at.file, error.at.line, error.message): error for error in errors}
    return tuple(sorted(unique.values(), key=lambda e: (e.at.file, e.at.line, e.at.column)))
