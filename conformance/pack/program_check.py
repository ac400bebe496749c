"""The static check of a pack's program, entered where its operations enter it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.language.axes import fits
from conformance.language.check import EntryPoint, check, explored
from conformance.language.errors import PackError
from conformance.language.program import Program
from conformance.pack.model import ChoiceField, Operation, Variant


def program_faults(
    program: Program,
    operations: Mapping[str, Operation],
    fields: Mapping[str, ChoiceField],
    variants: Mapping[str, Variant],
) -> tuple[PackError, ...]:
    """Every fault of the program that shows without data; see `conformance.language.check`."""
    read = explored(
        (v.choices for v in variants.values()), {name: field.values for name, field in fields.items()}
    )
    entries = [entry for operation in operations.values() for entry in entry_points(operation)]
    wrong = [error for operation in operations.values() for error in faults_of_arguments(program, operation)]
    return tuple(wrong) or check(program, read, entries, [v.choices for v in variants.values()])


def entry_points(operation: Operation) -> list[EntryPoint]:
    """The functions that grade an operation, and the choices to which that holds them."""
    choices: dict[str, tuple[Any, ...]] = {name: (value,) for name, value in operation.choices.items()}
    for name, either in operation.either.items():
        choices[name] = (*either.undeclared, *either.among)
    axes = {a.given: a.axes for a in operation.arguments.values() if a.given and a.axes}
    return [EntryPoint(name, choices, axes) for name in (operation.function, operation.with_context) if name]


def faults_of_arguments(program: Program, operation: Operation) -> list[PackError]:
    """Arguments of an operation whose axes are not those of the program's input."""
    errors = []
    for name in (operation.function, operation.with_context):
        given = program.functions[name].given if name else {}
        for argument in operation.arguments.values():
            declared = given.get(argument.given)
            if declared and argument.axes and not fits(argument.axes, declared.axes):
                have, want = " ".join(argument.axes), " ".join(declared.axes)
                message = f"the argument '{argument.name}' has axes [{have}], the input '{argument.given}' of {name} [{want}]"
                errors.append(PackError(message, operation.at))
    return errors
