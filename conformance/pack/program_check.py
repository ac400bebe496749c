"""The static check of a pack's program, entered where its operations enter it."""

from __future__ import annotations

from collections.abc import Mapping

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
    read = explored((v.choices for v in variants.values()), {name: field.values for name, field in fields.items()})
    return check(program, read, [entry for operation in operations.values() for entry in entry_points(operation)])


def entry_points(operation: Operation) -> list[EntryPoint]:
    """The functions that grade an operation, and the choices to which that holds them."""
    choices = {name: (value,) for name, value in operation.choices.items()}
    for name, either in operation.either.items():
        choices[name] = (*either.undeclared, *either.among)
    axes = {argument.given: argument.axes for argument in operation.arguments.values() if argument.given and argument.axes}
    return [EntryPoint(name, choices, axes) for name in (operation.function, operation.with_context) if name]
