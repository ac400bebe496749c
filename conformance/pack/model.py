"""A pack in memory: what can be graded, on which cases, by which claims. Plain frozen data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from conformance.language.errors import NOWHERE, Location
from conformance.language.expression import Expression
from conformance.language.program import Choices, Program, Text

RUNGS = ("operation", "layer", "model", "decode", "graph")
LEVELS = ("MUST", "SHOULD", "MAY")
DTYPES = ("float64", "float32", "float16", "bfloat16")


@dataclass(frozen=True)
class ChoiceField:
    """A free choice of the document: its default, the values it may have, and which numbers besides.

    `number` is "positive", "fraction" (more than 0, at most 1), "whole" (1 or more) or empty.
    """

    name: str
    default: Any
    values: tuple[Any, ...]
    number: str = ""
    at: Location = NOWHERE


@dataclass(frozen=True)
class Variant:
    """One set of choices, complete; `name` is how verdicts call it."""

    name: str
    choices: Choices
    says: Text = field(default_factory=lambda: Text("", ""))


@dataclass(frozen=True)
class Argument:
    """How an argument of a target's function is made. Exactly one source is set."""

    name: str
    axes: tuple[str, ...] = ()
    given: str = ""
    parameter: str = ""
    choice: str = ""
    position_of: str = ""
    everything: str = ""
    optional: bool = False


@dataclass(frozen=True)
class Either:
    """A choice that is open where no variant is declared; see `EitherDocument`."""

    undeclared: tuple[Any, ...]
    among: tuple[str, ...]
    when: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Operation:
    """A function (or the model) that a target may offer, and the program function it must equal."""

    name: str
    rung: str
    function: str
    arguments: Mapping[str, Argument]
    outputs: Mapping[str, tuple[str, ...]]
    optional_outputs: tuple[str, ...]
    says: Text
    signature: str
    with_context: str = ""
    choices: Choices = field(default_factory=dict)
    either: Mapping[str, Either] = field(default_factory=dict)
    needs_variant: bool = False
    model: bool = False
    real: Mapping[str, Expression] = field(default_factory=dict)
    undefined: Expression | None = None
    at: Location = NOWHERE

    @property
    def taps(self) -> bool:
        """Whether the operation's signature has `tap`, so that inner tensors can be seen."""
        return self.model or any(a.everything == "config" for a in self.arguments.values())


@dataclass(frozen=True)
class Draw:
    """How an input is made; see `DrawDocument`. `form` names the form, `value` its argument."""

    form: str
    value: Any
    axes: tuple[str, ...] = ()
    negative: bool = False


@dataclass(frozen=True)
class Case:
    """Sizes, inputs and parameters on which claims are decided; `published` ones stand in `golden/`."""

    id: str
    operation: str
    purpose: Text
    sizes: Mapping[str, int]
    given: Mapping[str, Draw | None]
    parameters: Mapping[str, Draw]
    choices: Choices
    when: Mapping[str, tuple[str, ...]]
    schedule: tuple[int, ...]
    tags: tuple[str, ...]
    dtypes: tuple[str, ...]
    published: bool = False
    at: Location = NOWHERE


@dataclass(frozen=True)
class Claim:
    """One statement of the document, made checkable. `body` is what its kind needs."""

    id: str
    question: str
    rung: str
    level: str
    statements: tuple[str, ...]
    operation: str
    title: Text
    says: Text
    source: str
    cases: tuple[str, ...]
    when: Mapping[str, tuple[str, ...]]
    where: Expression | None
    kind: str
    body: Any
    at: Location = NOWHERE


@dataclass(frozen=True)
class Statement:
    """A statement of the source document and how it is settled: T, I or S."""

    id: str
    settled: str
    says: Text
    reason: Text | None
    at: Location = NOWHERE


@dataclass(frozen=True)
class Pack:
    """Everything under one pack folder, checked. `digest` is a hash of all its files."""

    id: str
    version: str
    title: Text
    folder: Path
    digest: str
    program: Program
    choices: Mapping[str, ChoiceField]
    variants: Mapping[str, Variant]
    operations: Mapping[str, Operation]
    cases: Mapping[str, Case]
    claims: Mapping[str, Claim]
    statements: Mapping[str, Statement]
    questions: Mapping[str, Text]
    references: Mapping[str, str]

    @cached_property
    def cases_by_operation(self) -> Mapping[str, Sequence[Case]]:
        """The cases of each operation that has any, in the pack's order."""
        found: dict[str, list[Case]] = {}
        for case in self.cases.values():
            found.setdefault(case.operation, []).append(case)
        return found

    @cached_property
    def cases_found(self) -> dict[tuple[str, tuple[str, ...]], list[Case]]:
        """Of an operation, the cases that patterns name, once they have been looked for."""
        return {}
