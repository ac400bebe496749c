"""Mistakes under check: each patch read in every call of its function that the true program makes.

What a patch leaves as it was need not be read again. Where the patched equation gives a tensor of
the same axes, sizes and kind, nothing downstream can tell; where it does not, its function is read
anew, and where that gives something else, so are the entry points that come to it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence

from conformance.language.checked import UNKNOWN, CheckedScope, same_value
from conformance.language.entries import Root
from conformance.language.errors import PackError
from conformance.language.expression import parse
from conformance.language.names import Value
from conformance.language.naming import calls_of
from conformance.language.parameters import callee, calls_in, parameter_axes
from conformance.language.program import RESULT, Equation, Function, Mistake, Program, reachable
from conformance.language.sizes import Dimension
from conformance.language.traces import Call, Checker, Condition, Trace, Variant

Context = tuple[Call, Trace, tuple[Variant, ...]]


class Contexts:
    """Where the true program calls each function, and the variants in which it does."""

    def __init__(self, checker: Checker, roots: Sequence[Root]) -> None:
        """As they are now: checking mistakes adds further calls to `checker`."""
        self.checker, self.roots = checker, roots
        calls = calls_of(checker.program)
        self.reachable = {name: reachable(checker.program, name, calls) for name in calls}
        self.of: dict[str, list[Context]] = {}
        for call in checker.calls.values():
            for trace in call.traces:
                self.of.setdefault(call.function.name, []).append((call, trace, tuple(trace.variants)))

    def affected(self, functions: Iterable[str]) -> frozenset[str]:
        """All functions that call one of `functions`, by whatever way, and those themselves."""
        return frozenset(name for name, inside in self.reachable.items() if not inside.isdisjoint(functions))


class PatchedChecker(Checker):
    """Reads a patched program, and what no patch touches as the true program has been read."""

    def __init__(self, true: Checker, program: Program, affected: frozenset[str], numbers: Mapping[str, float]) -> None:
        """`affected` are the functions that may give something else than they do in `true`."""
        every = tuple(program.axes.by_name)
        super().__init__(program, numbers, dict.fromkeys(affected, every))
        self.true, self.affected = true, affected
        self.outcomes, self.tensors = true.outcomes, true.tensors

    def call(
        self,
        function: Function,
        inputs: Mapping[str, Value],
        sizes: Mapping[str, Dimension],
        state: Mapping[str, Value],
        stateless: bool = False,
    ) -> Call:
        """A call of the true program where that comes to the same."""
        if function.name not in self.affected:
            return self.true.call(function, inputs, sizes, state, stateless)
        return super().call(function, inputs, sizes, state, stateless)

    def trace(self, call: Call, variant: Variant) -> Trace:
        """The trace of the true program where that comes to the same."""
        return super().trace(call, variant) if call.function.name in self.affected else self.true.trace(call, variant)


def faults_of_patch(contexts: Contexts, mistake: Mistake) -> list[PackError]:
    """The faults of a mistake whose names are sound: at its own places first, one a place."""
    return _Patch(contexts, mistake).faults()


class _Patch:
    def __init__(self, contexts: Contexts, mistake: Mistake) -> None:
        true = contexts.checker
        self.contexts, self.mistake = contexts, mistake
        self.program = true.program.patched(mistake.id)
        self.functions = sorted({name for name, _ in mistake.replace})
        self.found: list[PackError] = [error for name in mistake.free for error in _unreadable(mistake, name)]
        self.changes = False
        self.wider: dict[Variant, None] = {}
        # Diagnosis tries several numbers for each of these; here any number will do.
        numbers = {**true.numbers, **dict.fromkeys(mistake.free, 0.5)}
        self.checker = PatchedChecker(true, self.program, contexts.affected(self.functions), numbers)

    def faults(self) -> list[PackError]:
        """All of them, each said of the mistake."""
        reached = False
        for name in self.functions:
            for call, trace, variants in self.contexts.of.get(name, ()):
                reached = True
                if not trace.errors:
                    self.read(call, trace, variants)
        for root in self.contexts.roots:
            if root.function in self.checker.affected:
                self.found.extend(root.read(self.checker, [v for v in self.wider if v in root.variants]))
        if reached and not self.changes and not self.found:
            self.found.append(PackError("it changes nothing in any variant", self.mistake.at))
        return self.attributed()

    def attributed(self) -> list[PackError]:
        """The errors at places of the patch; if there are none, what it breaks elsewhere."""
        places = {e.at for equation in self.mistake.replace.values() for e in equation.alternatives.values()}
        places |= {equation.at for equation in self.mistake.replace.values()} | {self.mistake.at}
        name = f"the mistake '{self.mistake.id}'"
        own = {error.at: error for error in reversed(self.found) if error.at in places}
        if own or not self.found:
            return [PackError(f"{name}: {e.message}", e.at, e.hint) for e in own.values()]
        first = self.found[0]
        return [PackError(f"{name} breaks what stands at {first.at}: {first.message}", self.mistake.at, first.hint)]

    def read(self, call: Call, trace: Trace, variants: Sequence[Variant]) -> None:
        """Read the patched equations of a call, once for each kind of variant."""
        patched = self.program.functions[call.function.name]
        names = [tensor for name, tensor in self.mistake.replace if name == patched.name]
        order = [*(e.name for e in patched.let), RESULT]
        pairs = [(call.function.equation(n), patched.equation(n)) for n in sorted(names, key=order.index)]
        by = {(e.by, ()) for pair in pairs for e in pair if e is not None and e.by}
        todo = list(variants)
        while todo and not self.found:
            variant = todo[0]
            changed = [new for old, new in pairs if new is not None and _differs(old, new, variant)]
            asked: set[Condition] = set(by)
            if changed:
                self.changes = True
                asked |= self.reread(call, trace, variant, changed)
            asked -= set(trace.conditions)
            told = [variant.told[condition] for condition in asked]
            todo = [v for v in todo[1:] if [v.told[condition] for condition in asked] != told]

    def reread(self, call: Call, trace: Trace, variant: Variant, changed: Sequence[Equation]) -> set[Condition]:
        """Read changed equations in the circumstances of a trace; returns what they ask of the variant."""
        function = self.program.functions[call.function.name]
        patched = self.checker.call(function, call.inputs, call.sizes, call.state, call.stateless)
        asked: set[Condition] = set()
        env = dict(trace.env)
        for equation in changed:
            scope = CheckedScope(self.checker, patched, variant)
            scope.resume(env, equation)
            value = scope.again(equation)
            self.found.extend(scope.errors)
            for inner, _ in scope.calls:
                self.found.extend(self.checker.trace(inner, variant).errors)
                asked.update(inner.asked)
            asked.update(scope.conditions)
            if self.found:
                return asked
            alike = equation.name not in env or same_value(value, env[equation.name])
            if not alike or scope.state or set(scope.taps) - {equation.name}:
                again = self.checker.trace(patched, variant)
                self.found.extend(again.errors)
                asked.update(patched.asked)
                if again.outcome is not trace.outcome:
                    self.wider[variant] = None
                break
            env[equation.name] = value
        self.parameters(function, variant, changed)
        return asked

    def parameters(self, function: Function, variant: Variant, changed: Sequence[Equation]) -> None:
        """A mistake has no parameters that the true program does not have."""
        picked = [expression for e in changed if (expression := e.pick(variant.choices))]
        calls = [call for expression in picked for call in calls_in(expression)]
        if not any(callee(call)[0] in self.program.functions for call in calls):
            return
        missing = self.missing(function.name, variant)
        if not missing:
            return
        # Another function may have declared it under the same prefix.
        for root in self.contexts.roots:
            names = parameter_axes(self.program, root.function, variant.choices, 2)
            concerned = [n for n in names if any(f".{n}".endswith(f".{m}") for m in missing)]
            if concerned and not set(concerned) & set(self.missing(root.function, variant)):
                return
        message = f"the true program has no parameter '{missing[0]}' in {function.name}"
        self.found.append(PackError(message, picked[0].at))

    def missing(self, start: str, variant: Variant) -> list[str]:
        """Parameters that the patched program has from `start` on, and the true one has not."""
        true = parameter_axes(self.contexts.checker.program, start, variant.choices, 2)
        return [name for name in parameter_axes(self.program, start, variant.choices, 2) if name not in true]


def _differs(old: Equation | None, new: Equation, variant: Variant) -> bool:
    """Whether a patched equation is another one in a variant."""
    before = old.pick(variant.choices) if old else None
    after = new.pick(variant.choices)
    if before is None or after is None:
        return before is not after
    if old and old.at_least_float32 != new.at_least_float32:
        return True
    return before.tree is not after.tree and ast.dump(before.tree) != ast.dump(after.tree)


def _unreadable(mistake: Mistake, name: str) -> list[PackError]:
    errors = []
    for value in mistake.free[name]:
        try:
            parse(value, mistake.at)
        except PackError as error:
            errors.append(PackError(f"a value of '{name}': {error.message}", error.at, error.hint))
    return errors
