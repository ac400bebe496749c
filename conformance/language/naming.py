"""What is wrong with a program's names, as can be said without evaluating anything."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from conformance.language.built_in import FUNCTIONS, MISTAKES_ONLY
from conformance.language.errors import Location, PackError, suggestion
from conformance.language.expression import Expression, names_in
from conformance.language.names import WORDS
from conformance.language.parameters import callee, calls_in
from conformance.language.pieces import OF_CALLS, OF_REPEAT
from conformance.language.program import (
    OTHERWISE,
    RESULT,
    Choices,
    Equation,
    Function,
    Mistake,
    Program,
    key_of,
    reachable,
)

KEYWORDS = OF_CALLS | OF_REPEAT
"""Arguments of a call that are none of the function's inputs."""


def calls_of(program: Program) -> dict[str, set[str]]:
    """For each function the functions of the program that it may call, in any variant."""
    return {
        function.name: {
            callee(call)[0] for expression in function.expressions() for call in calls_in(expression)
        }
        & set(program.functions)
        for function in program.functions.values()
    }


def values_of(variants: Sequence[Choices]) -> dict[str, set[str]]:
    """The values that each choice has in some variant, as keys name them."""
    values: dict[str, set[str]] = {}
    for variant in variants:
        for name, value in variant.items():
            values.setdefault(name, set()).add(key_of(value))
    return values


def faults_of_cycles(program: Program) -> list[PackError]:
    """Functions that call themselves, by whatever way: an evaluation of them would not end."""
    calls = calls_of(program)
    return [
        PackError(f"the function '{function.name}' calls itself", function.at)
        for function in program.functions.values()
        if any(function.name in reachable(program, called, calls) for called in calls[function.name])
    ]


def faults_of_names(
    program: Program, variants: Sequence[Choices], entries: Iterable[str], numbers: Iterable[str]
) -> list[PackError]:
    """All of them but for those of mistakes."""
    errors = [*_unused_functions(program, entries), *_tensors(program)]
    values = values_of(variants)
    pack = _names_of_pack(program, variants, numbers)
    for function in program.functions.values():
        errors.extend(_clashes(program, function, pack))
        errors.extend(_unused(program, function))
        errors.extend(_tricks(function))
        for equation in (*function.let, function.result):
            errors.extend(faults_of_choice(equation, values))
        for name, parameter in function.parameters.items():
            for field, wanted in parameter.when.items():
                errors.extend(
                    _choice(f"the parameter '{name}'", field, wanted, values, [parameter.at] * len(wanted))
                )
    return errors


# -- one name for two things ------------------------------------------------------------------------


def _names_of_pack(program: Program, variants: Sequence[Choices], numbers: Iterable[str]) -> dict[str, str]:
    """Names that mean something everywhere, and what: no function may give them another meaning."""
    axes = program.axes.by_name.values()
    return {
        **{name: f"the choice '{name}'" for variant in variants for name in variant},
        **{axis.name: f"the axis '{axis.name}'" for axis in axes},
        **{name: f"the function '{name}'" for name in program.functions},
        **{name: f"the language's function '{name}'" for name in FUNCTIONS},
        **{name: f"the argument '{name}' of calls" for name in KEYWORDS},
        **{axis.symbol: f"the size of axis '{axis.name}'" for axis in axes if axis.symbol},
        **{name: f"the number '{name}'" for name in (*WORDS, *numbers)},
    }


def _clashes(program: Program, function: Function, pack: Mapping[str, str]) -> Iterator[PackError]:
    if function.name in FUNCTIONS:
        yield PackError(
            f"'{function.name}' is a function of the language already", function.at, "give it another name"
        )
    symbols = {*program.axes.by_symbol, *WORDS}
    before: dict[str, tuple[str, Location]] = {}
    for what, name, at in _names_of(function):
        if name in before:
            other, first = before[name]
            yield PackError(
                f"'{name}' is {what} and {other} of {function.name} ({first})",
                at,
                "one name means one thing: rename one",
            )
        before.setdefault(name, (what, at))
        # A parameter bears the name that checkpoints give it, an input that of the axis along
        # which it lies; neither can be mistaken for the choice or the axis where they stand.
        own = name in program.axes.by_name and what == "an input" and name in function.given[name].axes
        if name in pack and not own and (what != "a parameter" or name in symbols or "number" in pack[name]):
            yield PackError(
                f"'{name}' is {what} of {function.name} and {pack[name]}",
                at,
                "one name means one thing: rename it",
            )
        if name == RESULT:
            yield PackError(f"'{RESULT}' is the result of {function.name}", at, "rename it")


def _names_of(function: Function) -> Iterator[tuple[str, str, Location]]:
    for name, given in function.given.items():
        yield "an input", name, given.at
    for name, parameter in function.parameters.items():
        yield "a parameter", name, parameter.at
    for name, remembered in function.remember.items():
        yield "a remembered tensor", name, remembered.at
    for equation in function.let:
        yield "a tensor", equation.name, equation.at


# -- names that nothing uses, names that are of nothing ---------------------------------------------


def _unused_functions(program: Program, entries: Iterable[str]) -> Iterator[PackError]:
    calls = calls_of(program)
    used: set[str] = set()
    for entry in entries:
        used |= reachable(program, entry, calls)
    for function in program.functions.values():
        if function.name not in used:
            yield PackError(
                f"the function '{function.name}' is never called", function.at, "remove it, or call it"
            )


def _unused(program: Program, function: Function) -> Iterator[PackError]:
    read = {name for expression in function.expressions() for name in names_in(expression)}
    for what, name, at in _names_of(function):
        if name not in read and not program.tap(function.name, name):
            yield PackError(f"'{name}', {what} of {function.name}, is never read", at, "remove it")


def _tensors(program: Program) -> Iterator[PackError]:
    for tensor in program.tensors.values():
        for name in tensor.functions:
            function = program.functions.get(name)
            if function is None:
                continue
            known = [*function.given, *(equation.name for equation in function.let)]
            if tensor.name not in known:
                yield PackError(
                    f"{name} has no tensor '{tensor.name}'", tensor.at, suggestion(tensor.name, known)
                )


# -- choices ------------------------------------------------------------------------------------------


def faults_of_choice(equation: Equation, values: Mapping[str, set[str]]) -> Iterator[PackError]:
    """An equation by a choice that there is not, or for a value that no variant has."""
    if equation.by:
        keys = {key: expression.at for key, expression in equation.alternatives.items() if key != OTHERWISE}
        yield from _choice(
            f"'{equation.name}'", equation.by, list(keys), values, list(keys.values()), equation.at
        )


def _choice(
    what: str,
    field: str,
    wanted: Sequence[str],
    values: Mapping[str, set[str]],
    places: Sequence[Location],
    at: Location | None = None,
) -> Iterator[PackError]:
    if field not in values:
        yield PackError(
            f"{what} depends on an unknown choice '{field}'", at or places[0], suggestion(field, values)
        )
        return
    for key, place in zip(wanted, places, strict=True):
        if key not in values[field]:
            hint = suggestion(key, values[field]) or f"there are {', '.join(sorted(values[field]))}"
            yield PackError(f"{what} has a case for {field}: {key}, which no variant has", place, hint)


# -- what only mistakes may do ------------------------------------------------------------------------


def _tricks(function: Function) -> Iterator[PackError]:
    for expression in function.expressions():
        for call in calls_in(expression):
            name, _ = callee(call)
            if name in MISTAKES_ONLY:
                yield PackError(
                    f"{name} is for mistakes only, in '{expression}'",
                    expression.at,
                    "split, merge and relabel say what is meant",
                )
            elif name == "relabel" and _permutes(call):
                yield PackError(
                    f"relabel exchanges axes, which is for mistakes only, in '{expression}'",
                    expression.at,
                    "a tensor's values belong to its axes",
                )


def _permutes(call: ast.Call) -> bool:
    """Whether some axis gets the name of another one that is renamed as well."""
    old = {keyword.arg for keyword in call.keywords}
    return any(
        isinstance(k.value, ast.Name) and k.value.id in old and k.value.id != k.arg for k in call.keywords
    )


# -- mistakes -----------------------------------------------------------------------------------------


def faults_of_mistake(program: Program, mistake: Mistake, values: Mapping[str, set[str]]) -> list[PackError]:
    """A patch of a tensor that there is not, unless the patch itself reads it; a wrong choice or name.

    `values` are those that each choice has in some variant; see `values_of`.
    """
    errors = []
    read = {
        name
        for equation in mistake.replace.values()
        for e in equation.alternatives.values()
        for name in names_in(e)
    }
    for free in mistake.free:
        taken = [f.name for f in program.functions.values() for _, other, _ in _names_of(f) if other == free]
        if free not in read:
            errors.append(
                PackError(f"'{mistake.id}' leaves '{free}' open, which its patch does not read", mistake.at)
            )
        elif any(name in taken for name, _ in mistake.replace):
            errors.append(
                PackError(f"'{mistake.id}' leaves '{free}' open, which has a value already", mistake.at)
            )
    for (name, tensor), equation in mistake.replace.items():
        function = program.functions.get(name)
        if function is None:
            hint = suggestion(name, program.functions)
            errors.append(
                PackError(f"'{mistake.id}' patches an unknown function '{name}'", equation.at, hint)
            )
            continue
        errors.extend(faults_of_choice(equation, values))
        if function.equation(tensor) is not None:
            continue
        known = [RESULT, *(e.name for e in function.let)]
        others = {other: what for what, other, _ in _names_of(function)}
        if tensor in others:
            errors.append(
                PackError(
                    f"'{mistake.id}' replaces '{tensor}', which is {others[tensor]} of {name}",
                    equation.at,
                    "patch what reads it",
                )
            )
        elif not any(tensor in names_in(expression) for expression in _patched(mistake, name)):
            errors.append(
                PackError(
                    f"'{mistake.id}' replaces '{tensor}', which {name} does not have",
                    equation.at,
                    suggestion(tensor, known),
                )
            )
    return errors


def _patched(mistake: Mistake, function: str) -> Iterator[Expression]:
    for (name, _), equation in mistake.replace.items():
        if name == function:
            yield from equation.alternatives.values()
