"""Calls from outside: how a check enters a program, and in which variants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from conformance.language.checked import Present
from conformance.language.errors import PackError
from conformance.language.names import Value
from conformance.language.naming import calls_of
from conformance.language.program import Choices, Program, key_of, reachable
from conformance.language.sizes import Size
from conformance.language.symbolic import Kind, Shape, axes_of_input, fixed_sizes, sizes_of
from conformance.language.tensors import Named
from conformance.language.traces import Call, Checker, Outcome, Standing, Variant

Key = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class EntryPoint:
    """A function that is called from outside, with the values to which that holds some choices.

    An input has the `axes` given here, or those declared, with the pack's first axis for `...`; it
    holds what its declaration says, or real numbers.
    """

    function: str
    choices: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def variant(self, choices: Choices) -> dict[str, Any]:
        """A variant with a value that this entry point allows wherever it has another one."""
        held = {
            name: values[0]
            for name, values in self.choices.items()
            if values and key_of(choices.get(name)) not in map(key_of, values)
        }
        return {**choices, **held}


def explored(named: Iterable[Choices], values: Mapping[str, Sequence[Any]]) -> tuple[Choices, ...]:
    """The variants that a check reads: those named, and each with one choice changed.

    Args:
        named: The variants that have a name, complete.
        values: The values that each choice may have; none for one that is a number.

    Returns:
        The named ones first, none twice.
    """
    variants = [dict(choices) for choices in named]
    changed = ({**v, name: value} for v in variants for name, allowed in values.items() for value in allowed)
    return unique([*variants, *changed])


def unique(variants: Iterable[Choices]) -> tuple[Choices, ...]:
    """The variants without those that are there already."""
    found: dict[Key, Choices] = {}
    for variant in variants:
        found.setdefault(_key(variant), variant)
    return tuple(found.values())


def _key(choices: Choices) -> Key:
    return frozenset((name, key_of(value)) for name, value in choices.items())


@dataclass(frozen=True, eq=False)
class Root:
    """One way to call an entry point, and the same once more with a past where it remembers something."""

    function: str
    inputs: Mapping[str, Value]
    again: Mapping[str, Value]
    variants: tuple[Variant, ...]

    def read(self, checker: Checker, variants: Iterable[Variant]) -> list[PackError]:
        """Both calls in each of the variants; returns all errors that are met."""
        function = checker.program.functions[self.function]
        sizes = fixed_sizes(checker.program.axes)
        checker.root = self
        first = checker.call(function, self.inputs, sizes, {})
        # By outcome, since a past is the same in most variants.
        seconds: dict[Outcome, Call] = {}
        standings: dict[Standing, None] = {}
        for variant in variants:
            standing = checker.read(first, variant)
            standings[standing] = None
            if self.again:
                past = standing.traces[0].outcome
                if past not in seconds:
                    seconds[past] = checker.call(function, self.again, sizes, dict(past.state))
                standings[checker.read(seconds[past], variant)] = None
        return [error for standing in standings for error in standing.errors]


def roots(
    program: Program,
    entry_points: Iterable[EntryPoint],
    variants: Sequence[Choices],
    principal: Iterable[Choices] = (),
) -> list[Root]:
    """Every way to call the entry points, the smallest first: their optional inputs given, and left out."""
    entries = list(entry_points)
    first = list(principal)
    main = {_key(entry.variant(choices)) for entry in entries for choices in first}
    known: dict[Key, Variant] = {}

    def variant(choices: Choices) -> Variant:
        key = _key(choices)
        if key not in known:
            known[key] = Variant.of(choices, key in main)
        return known[key]

    free = tuple(map(variant, variants))
    found = []
    for entry in entries:
        function = program.functions[entry.function]
        allowed = free
        if entry.choices:
            allowed = tuple(dict.fromkeys(variant(entry.variant(v.choices)) for v in free))
        optional = frozenset(name for name, given in function.given.items() if given.optional)
        for present in (optional, frozenset()) if optional else (optional,):
            again = _inputs(program, entry, present, "'") if function.remember else {}
            found.append(Root(entry.function, _inputs(program, entry, present, ""), again, allowed))
    calls = calls_of(program)
    return sorted(found, key=lambda root: len(reachable(program, root.function, calls)))


def _inputs(program: Program, entry: EntryPoint, present: Iterable[str], mark: str) -> dict[str, Value]:
    """Inputs of a call. With a mark, all lengths are new that neither a config nor a memory fixes."""
    kept = {axis for r in program.functions.values() for state in r.remember.values() for axis in state.axes}
    inputs: dict[str, Value] = {}
    for name, given in program.functions[entry.function].given.items():
        axes = axes_of_input(program.axes, entry.axes.get(name, given.axes))
        if name in present:
            inputs[name] = Present(axes)
        elif not given.optional:
            new = {a for a in axes if mark and a not in kept and not program.axes.by_name[a].config}
            sizes = (
                Size.symbol(f"{size}{mark}") if a in new else size for a, size in sizes_of(program.axes, axes)
            )
            inputs[name] = Named(axes, Shape(cast(Kind, given.kind or "real"), tuple(sizes)))
    return inputs
