"""Which of a variant's choices a scenario depends on, so that what is the same in two variants is one.

A softmax is called alike and computes alike under every variant. Where it is known that only the
place of eps in a norm tells two variants apart, everything else is read, called and stored once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from conformance.language.expression import Expression, names_in
from conformance.language.parameters import callee, calls_in
from conformance.language.program import Choices, Function, Program, reachable
from conformance.pack.model import Operation

_WORD = re.compile(r"[A-Za-z_]\w*")


def relevant_choices(
    program: Program, operation: Operation, function: str, choices: Choices
) -> list[tuple[str, Any]]:
    """The choices, with their values and in order of name, that a call of `function` may depend on.

    All of them where the target is given its config, since it may look at any. Else those that the
    program or the call's arguments name, and those that their values name (`sqrt(D)`).
    """
    if operation.taps:
        return sorted(choices.items())
    todo = [*names_read(program, function), *(a.choice for a in operation.arguments.values())]
    found: dict[str, Any] = {}
    while todo:
        name = todo.pop()
        if name in choices and name not in found:
            found[name] = choices[name]
            todo += _WORD.findall(str(choices[name]))
    return sorted(found.items())


def names_read(program: Program, function: str) -> frozenset[str]:
    """Every name that a function asks for, or anything that it may call: in any variant, with any mistake.

    Worked out once and kept with the program.
    """
    known: dict[str, frozenset[str]] = vars(program).setdefault("_names_read", {})
    if function not in known:
        own, calls = _functions(program)
        for start in program.functions:
            known[start] = frozenset().union(*(own[name] for name in reachable(program, start, calls)))
    return known[function]


def _functions(program: Program) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Of each function, the names that it asks for, and of what it calls: an axis may have a function's name."""
    own: dict[str, set[str]] = {}
    calls: dict[str, set[str]] = {}
    for name, function in program.functions.items():
        own[name] = {equation.by for equation in (*function.let, function.result)}
        own[name].update(choice for parameter in function.parameters.values() for choice in parameter.when)
        calls[name] = set()
        _add(function, function.expressions(), own[name], calls[name])
    for mistake in program.mistakes.values():
        for (name, _), equation in mistake.replace.items():
            if name not in own:  # a fault of the pack, which others report
                continue
            own[name].add(equation.by)
            own[name].update(
                word for values in mistake.free.values() for value in values for word in _WORD.findall(value)
            )
            _add(program.functions[name], equation.alternatives.values(), own[name], calls[name])
    return own, calls


def _add(function: Function, expressions: Iterable[Expression], own: set[str], calls: set[str]) -> None:
    for expression in expressions:
        # A parameter hides a choice of the same name (`bias`).
        own |= names_in(expression) - function.parameters.keys()
        calls.update(callee(call)[0] for call in calls_in(expression))
