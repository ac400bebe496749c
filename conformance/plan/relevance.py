"""Which of a variant's choices a scenario depends on, so that what is the same in two variants is one.

A softmax is called alike and computes alike under every variant. Where it is known that only the
place of eps in a norm tells two variants apart, everything else is read, called and stored once.
"""

from __future__ import annotations

import re
from typing import Any

from conformance.language.expression import names_in
from conformance.language.program import Choices, Program, reachable
from conformance.pack.model import Operation

_WORD = re.compile(r"[A-Za-z_]\w*")


def relevant_choices(program: Program, operation: Operation, function: str, choices: Choices) -> list[tuple[str, Any]]:
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
    """Every name that a function, or anything that it may call, asks for in any variant.

    Worked out once and kept with the program.
    """
    known: dict[str, frozenset[str]] = vars(program).setdefault("_names_read", {})
    if function not in known:
        own = {name: _own_names(program, name) for name in program.functions}
        for start in program.functions:
            known[start] = frozenset().union(*(own[name] for name in reachable(program, start, own)))
    return known[function]


def _own_names(program: Program, name: str) -> frozenset[str]:
    function = program.functions[name]
    found = {equation.by for equation in (*function.let, function.result)}
    found.update(choice for parameter in function.parameters.values() for choice in parameter.when)
    for expression in function.expressions():
        found |= names_in(expression)
    return frozenset(found)
