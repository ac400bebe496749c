"""The program as data: functions of equations, choices, and mistakes that are patches of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from conformance.language.axes import AxisTable
from conformance.language.errors import NOWHERE, Location, PackError, suggestion
from conformance.language.expression import Expression, parse

RESULT = "is"
OTHERWISE = "else"

Choices = Mapping[str, Any]
"""The fields of a variant: `{"norm": "rms_norm", "norm_eps": 1e-5, …}`."""


def key_of(value: object) -> str:
    """A choice's value as a YAML key names it: `True` is "true", and 1.0 is "1" like 1."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def holds(when: Mapping[str, tuple[str, ...]], choices: Choices) -> bool:
    """Whether every field in `when` has one of the values listed for it."""
    return all(key_of(choices.get(name)) in values for name, values in when.items())


@dataclass(frozen=True)
class Equation:
    """`name = expression`, or one expression for each value of the choice `by`."""

    name: str
    alternatives: Mapping[str, Expression]
    by: str = ""
    at_least_float32: bool = False
    at: Location = NOWHERE

    def alternative(self, choices: Choices) -> str:
        """The key of the alternative in force, which need not exist."""
        if not self.by:
            return ""
        key = key_of(choices.get(self.by))
        return key if key in self.alternatives else OTHERWISE

    def pick(self, choices: Choices) -> Expression | None:
        """The expression in force, or None where the tensor does not exist in this variant."""
        if not self.by:
            return self.alternatives.get("")
        return self.alternatives.get(self.alternative(choices))


@dataclass(frozen=True)
class Given:
    """An input of a function; with `otherwise`, one that may be left out.

    `kind` is "bool", "int" or "real", or empty where it is not said.
    """

    axes: tuple[str, ...]
    otherwise: Expression | None = None
    kind: str = ""
    at: Location = NOWHERE

    @property
    def optional(self) -> bool:
        """Whether a call may leave it out."""
        return self.otherwise is not None


@dataclass(frozen=True)
class Parameter:
    """A trained tensor of a function, present where the choices in `when` hold; zero elsewhere."""

    axes: tuple[str, ...]
    when: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    like: str = "matrix"
    at: Location = NOWHERE


@dataclass(frozen=True)
class Remembered:
    """What a function keeps for its next call at the same place; `first` is its value before."""

    axes: tuple[str, ...]
    value: Expression
    first: Expression | None = None
    at: Location = NOWHERE


@dataclass(frozen=True)
class Function:
    """A function of the program: its inputs, parameters, state, equations and result."""

    name: str
    given: Mapping[str, Given]
    parameters: Mapping[str, Parameter]
    remember: Mapping[str, Remembered]
    let: tuple[Equation, ...]
    result: Equation
    gives: tuple[str, ...]
    at: Location = NOWHERE

    def equation(self, name: str) -> Equation | None:
        """The equation called `name` (`is` for the result), or None.

        Of an optional input it is what stands for it where it is left out, of something
        remembered what is kept of this call.
        """
        if name == RESULT:
            return self.result
        for equation in self.let:
            if equation.name == name:
                return equation
        given, remembered = self.given.get(name), self.remember.get(name)
        if given is not None and given.otherwise is not None:
            return Equation(name, {"": given.otherwise}, at=given.at)
        if remembered is not None:
            return Equation(name, {"": remembered.value}, at=remembered.at)
        return None

    def expressions(self) -> Iterator[Expression]:
        """Every expression of the function, whatever the variant."""
        yield from (given.otherwise for given in self.given.values() if given.otherwise is not None)
        for remembered in self.remember.values():
            yield remembered.value
            if remembered.first is not None:
                yield remembered.first
        for equation in (*self.let, self.result):
            yield from equation.alternatives.values()

    def with_equation(self, equation: Equation) -> Function:
        """The function with one equation replaced; a new one stands before all others."""
        name = equation.name
        if name == RESULT:
            return replace(self, result=equation)
        if self.equation(name) is None:
            return replace(self, let=(equation, *self.let))
        if name in self.given or name in self.remember:
            if equation.by:
                raise PackError(f"'{name}' of {self.name} cannot depend on a choice", equation.at)
            value = equation.alternatives[""]
            if name in self.given:
                return replace(self, given={**self.given, name: replace(self.given[name], otherwise=value)})
            return replace(self, remember={**self.remember, name: replace(self.remember[name], value=value)})
        return replace(self, let=tuple(equation if old.name == equation.name else old for old in self.let))


@dataclass(frozen=True)
class Text:
    """A text that a person reads, in both languages."""

    en: str
    zh: str


@dataclass(frozen=True)
class Mistake:
    """A named patch: equations (by function and tensor) that replace those of the program."""

    id: str
    replace: Mapping[tuple[str, str], Equation]
    says: Text
    kind: int = 0
    free: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    at: Location = NOWHERE

    def forms(self) -> tuple[Mapping[str, str], ...]:
        """Every combination of values for the names that the mistake leaves free (`fill`)."""
        names = list(self.free)
        return tuple(dict(zip(names, values, strict=True)) for values in product(*self.free.values()))


@dataclass(frozen=True)
class TensorName:
    """A named tensor: its axes and the functions it lives in.

    A target may make it visible, unless it is not `offered` and only the program has it.
    """

    name: str
    axes: tuple[str, ...]
    functions: tuple[str, ...]
    says: Text
    offered: bool = True
    at: Location = NOWHERE


@dataclass(frozen=True)
class Program:
    """All functions, and the names by which their tensors are known outside."""

    axes: AxisTable
    functions: Mapping[str, Function]
    tensors: Mapping[str, TensorName]
    mistakes: Mapping[str, Mistake]

    def function(self, name: str, at: Location = NOWHERE) -> Function:
        """The function `name`; raises `PackError` with the nearest name there is."""
        if name not in self.functions:
            raise PackError(f"unknown function '{name}'", at, suggestion(name, self.functions))
        return self.functions[name]

    def tap(self, function: str, name: str) -> bool:
        """Whether the tensor `name` of `function` is known outside."""
        tensor = self.tensors.get(name)
        return tensor is not None and function in tensor.functions

    def patched(self, *mistakes: str) -> Program:
        """The program with the named mistakes made, each in its first form.

        Raises `PackError` for an unknown one.
        """
        program = self
        for identifier in mistakes:
            if identifier not in self.mistakes:
                raise PackError(f"unknown mistake '{identifier}'", hint=suggestion(identifier, self.mistakes))
            mistake = self.mistakes[identifier]
            program = program.mistaken(mistake, mistake.forms()[0])
        return program

    def mistaken(self, mistake: Mistake, form: Mapping[str, str]) -> Program:
        """The program with one mistake made in one of its forms."""
        functions = dict(self.functions)
        for (name, _), equation in mistake.replace.items():
            functions[name] = merged(functions[name], substituted(equation, form))
        return replace(self, functions=functions)

    def changed_by(self, mistake: Mistake, form: Mapping[str, str], choices: Choices) -> frozenset[str]:
        """The functions in which a mistake changes what a variant evaluates, as far as the text tells."""
        made = self.mistaken(mistake, form)
        found = set()
        for name, tensor in mistake.replace:
            before = self.functions[name].equation(tensor)
            after = made.functions[name].equation(tensor)
            # A new equation does nothing by itself; those that name it are replaced as well.
            if before is not None and after is not None and before.pick(choices) != after.pick(choices):
                found.add(name)
        return frozenset(found)

    def equations(self) -> Iterator[tuple[Function, Equation]]:
        """Every equation with the function it stands in, results included."""
        for function in self.functions.values():
            for equation in (*function.let, function.result):
                yield function, equation


def substituted(equation: Equation, form: Mapping[str, str]) -> Equation:
    """An equation of a mistake with its free names replaced by the values of a form."""
    if not form:
        return equation
    alternatives = {
        key: parse(
            re.sub(rf"\b({'|'.join(map(re.escape, form))})\b", lambda m: f"({form[m[1]]})", e.text), e.at
        )
        for key, e in equation.alternatives.items()
    }
    return replace(equation, alternatives=alternatives)


def merged(function: Function, patch: Equation) -> Function:
    """`function` with `patch` laid over the equation of that name.

    A patch by the same choice replaces only the alternatives that it names, so that a mistake in
    one layout leaves the other as it was.
    """
    old = function.equation(patch.name)
    if old is not None and patch.by and old.by == patch.by:
        patch = replace(patch, alternatives={**old.alternatives, **patch.alternatives})
    return function.with_equation(patch)


def reachable(program: Program, start: str, calls: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """Names of the functions that `start` may call, itself included; `calls` names callees."""
    seen: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name in seen or name not in program.functions:
            continue
        seen.add(name)
        todo.extend(calls.get(name, ()))
    return frozenset(seen)
