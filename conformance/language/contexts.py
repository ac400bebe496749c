"""Where a program calls its functions, and what came of it: what a patch of it is checked against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from conformance.language.entries import Root
from conformance.language.names import Value
from conformance.language.naming import calls_of
from conformance.language.parameters import VariantParameters
from conformance.language.program import reachable
from conformance.language.tensors import Named
from conformance.language.traces import Call, Checker, Trace, Variant


@dataclass(eq=False)
class Context:
    """A call of a function with all that its equations came to, and the traces where that is so."""

    call: Call
    env: dict[str, Value]
    traces: dict[Variant, Trace] = field(default_factory=dict)


class Contexts:
    """Where the true program calls each function, and the variants in which it does."""

    def __init__(self, checker: Checker, roots: Sequence[Root]) -> None:
        """As they are now: checking mistakes adds further calls to `checker`.

        `roots` have been read in this order, the smaller ones first. Of each function those calls
        are kept that the first of them makes which comes to it, and with a past likewise; of an
        entry point all.
        """
        self.checker, self.roots = checker, roots
        calls = calls_of(checker.program)
        self.reachable = {name: reachable(checker.program, name, calls) for name in calls}
        self.of: dict[str, list[Context]] = {}
        self.covered = {c: {v for t in c.traces for v in t.variants} for c in checker.calls.values()}
        errors = {(c.function.name, e.at) for c in checker.calls.values() for t in c.traces for e in t.errors}
        self.faulty = {name for name, _ in errors}
        self.faulty_places = {at for _, at in errors}
        self.parameters: dict[Variant, VariantParameters] = {}
        first: dict[tuple[str, bool], object] = {}
        for call in checker.calls.values():
            name = call.function.name
            entered = isinstance(call.root, Root) and call.root.function == name
            if first.setdefault((name, bool(call.state)), call.root) is call.root or entered:
                self.of.setdefault(name, []).extend(_contexts(call))

    def affected(self, functions: Iterable[str]) -> frozenset[str]:
        """All functions that call one of `functions`, by whatever way, and those themselves."""
        return frozenset(name for name, inside in self.reachable.items() if not inside.isdisjoint(functions))

    def ways_to(self, functions: Iterable[str]) -> list[Root]:
        """The smallest entry points that come to each function, one that remembers among them."""
        chosen: set[str] = set()
        for name in functions:
            there = [root for root in self.roots if name in self.reachable[root.function]]
            chosen |= {root.function for root in there[:1]}
            chosen |= {root.function for root in [root for root in there if root.again][:1]}
        return [root for root in self.roots if root.function in chosen]

    def covers(self, call: Call, variants: Sequence[Variant]) -> bool:
        """Whether the true program makes such a call in all these variants."""
        return self.covered.get(call, set()).issuperset(variants)

    def parameters_in(self, variant: Variant) -> VariantParameters:
        """The parameters of the true program's functions."""
        if variant not in self.parameters:
            program, numbers = self.checker.program, self.checker.numbers
            self.parameters[variant] = VariantParameters(program, variant.choices, numbers)
        return self.parameters[variant]


def _contexts(call: Call) -> list[Context]:
    """The traces of a call, those together in which all its tensors are the same."""
    found: dict[object, Context] = {}
    for trace in call.traces:
        if not trace.errors:
            key = tuple(
                (name, (v.axes, v.array) if isinstance(v, Named) else v) for name, v in trace.env.items()
            )
            context = found.setdefault(key, Context(call, trace.env))
            context.traces.update(dict.fromkeys(trace.variants, trace))
    return list(found.values())
