"""Mistakes under check: each patch read in every call of its function that the true program makes.

What a patch leaves as it was need not be read again. Where the patched equation gives a tensor of
the same axes, sizes and kind, nothing downstream can tell; where it does not, its function is read
anew, and where that gives something else, so are the entry points that come to it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from conformance.language.checked import CheckedScope
from conformance.language.contexts import Context, Contexts
from conformance.language.declarations import UNKNOWN
from conformance.language.errors import PackError
from conformance.language.names import Value
from conformance.language.parameters import VariantParameters, calls_in
from conformance.language.program import RESULT, Equation, Function, Mistake, Program
from conformance.language.sizes import Dimension, Size
from conformance.language.tensors import Named
from conformance.language.traces import Call, Checker, Condition, Standing, Variant


class PatchedChecker(Checker):
    """Reads a patched program, and what no patch touches as the true program has been read."""

    def __init__(self, true: Checker, program: Program, affected: frozenset[str]) -> None:
        """`affected` are the functions that may give something else than they do in `true`."""
        every = tuple(program.axes.by_name)
        super().__init__(program, true.numbers, dict.fromkeys(affected, every))
        self.true, self.affected, self.lenient = true, affected, True
        self.outcomes, self.tensors, self.parameters = true.outcomes, true.tensors, true.parameters
        self.configured = {axis.symbol for axis in program.axes.by_name.values() if axis.config}

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

    def read(self, call: Call, variant: Variant) -> Standing:
        """As the true program is read, where that comes to the same."""
        return (
            super().read(call, variant)
            if call.function.name in self.affected
            else self.true.read(call, variant)
        )

    def may_agree(self, one: Dimension, other: Dimension) -> bool:
        """A mistake may need widths that coincide: without Wo, `H*Dv` has to be `D`."""
        return Size.of(one).names() | Size.of(other).names() <= self.configured


def faults_of_patch(contexts: Contexts, mistake: Mistake) -> list[PackError]:
    """The faults of a mistake whose names are sound, in any of its forms."""
    found: list[PackError] = []
    changes = False
    for form in mistake.forms():
        try:
            patch = _Patch(contexts, mistake, form)
        except PackError as error:
            shown = ", ".join(f"{name} as {value}" for name, value in form.items())
            return [PackError(f"the mistake '{mistake.id}', with {shown}: {error.message}", error.at)]
        found.extend(patch.faults())
        changes = changes or patch.changes
    reached = any(contexts.of.get(name) for name, _ in mistake.replace)
    faulty = any(name in contexts.faulty for name, _ in mistake.replace)
    if reached and not (changes or found or faulty):
        found.append(PackError("it changes nothing in any variant", mistake.at))
    return _attributed(mistake, found)


def _attributed(mistake: Mistake, found: Sequence[PackError]) -> list[PackError]:
    """The errors at places of a patch; if there are none, what it breaks elsewhere."""
    places = {e.at for equation in mistake.replace.values() for e in equation.alternatives.values()}
    places |= {equation.at for equation in mistake.replace.values()} | {mistake.at}
    name = f"the mistake '{mistake.id}'"
    own = {error.at: error for error in reversed(found) if error.at in places}
    if own or not found:
        return [PackError(f"{name}: {e.message}", e.at, e.hint) for e in own.values()]
    first = found[0]
    return [PackError(f"{name} breaks what stands at {first.at}: {first.message}", mistake.at, first.hint)]


class _Patch:
    """One form of a mistake under check."""

    def __init__(self, contexts: Contexts, mistake: Mistake, form: Mapping[str, str]) -> None:
        true = contexts.checker
        self.contexts, self.mistake = contexts, mistake
        self.program = true.program.mistaken(mistake, form)
        self.functions = sorted({name for name, _ in mistake.replace})
        self.found: list[PackError] = []
        self.changes = False
        self.moved = False
        self.wider: dict[Variant, None] = {}
        self.checker = PatchedChecker(true, self.program, contexts.affected(self.functions))

    def faults(self) -> list[PackError]:
        """All errors that are met, wherever they are."""
        for name in self.functions:
            # Where a patch remembers in another place, the past of a true call is none of its own.
            for context in sorted(self.contexts.of.get(name, ()), key=lambda c: bool(c.call.state)):
                if not (self.moved and context.call.state):
                    self.read(context)
        wider = [variant for variant in self.wider if variant.principal] or list(self.wider)[:1]
        for root in self.contexts.ways_to(self.functions) if wider else ():
            self.note(root.read(self.checker, [v for v in wider if v in root.variants]))
        return self.found

    def read(self, context: Context) -> None:
        """Read the patched equations of a call, once for each kind of variant."""
        patched = self.program.functions[context.call.function.name]
        names = [tensor for name, tensor in self.mistake.replace if name == patched.name]
        order = [*patched.given, *patched.remember, *(e.name for e in patched.let), RESULT]
        pairs = [
            (context.call.function.equation(n), patched.equation(n)) for n in sorted(names, key=order.index)
        ]
        by: set[Condition] = {(e.by, ()) for pair in pairs for e in pair if e is not None and e.by}
        todo = list(context.traces)
        spread = False
        while todo and not self.found:
            variant = todo[0]
            changed = [new for old, new in pairs if new is not None and _differs(old, new, variant)]
            asked = set(by)
            if changed:
                self.changes = True
                alike = self.reread(context, variant, changed, todo, asked)
                self.parameters(patched, variant, changed)
                if not alike and not self.found:
                    spread = True
                    self.spread(context, variant)
            told = [variant.told[condition] for condition in asked]
            todo = [v for v in todo[1:] if [v.told[condition] for condition in asked] != told]
        for variant in context.traces:
            if spread and variant.principal and not self.found:
                self.spread(context, variant)

    def patched(self, call: Call) -> Call:
        """A call of the true program as one of the patched."""
        function = self.program.functions[call.function.name]
        return self.checker.call(function, call.inputs, call.sizes, call.state, call.stateless)

    def reread(
        self,
        context: Context,
        variant: Variant,
        changed: Sequence[Equation],
        todo: Sequence[Variant],
        asked: set[Condition],
    ) -> bool:
        """Read changed equations in the circumstances of a call.

        Returns whether nobody can tell; adds what they ask of a variant to `asked`, but for what
        is the same as in the true program in all variants of `todo`.
        """
        patched = self.patched(context.call)
        env = dict(context.env)
        for equation in changed:
            if equation.name in patched.function.given or equation.name in patched.function.remember:
                # Read before or after all equations, so only with the whole call.
                return False
            scope = CheckedScope(self.checker, patched, variant)
            scope.resume(env, equation)
            value = scope.again(equation)
            self.note(scope.errors)
            asked.update(scope.conditions)
            for _, inner, _ in scope.calls:
                standing = self.checker.read(inner, variant)
                self.note(standing.errors)
                if inner.function.name not in self.checker.affected and not self.contexts.covers(inner, todo):
                    # Of what lies deeper, other variants are left to the principal ones.
                    asked.update(standing.traces[0].conditions)
            if not self.found and not self.alike(equation, value, scope, context, variant):
                return False
            env[equation.name] = value
        return True

    def spread(self, context: Context, variant: Variant) -> None:
        """Read a patched call as a whole; if it gives something else, so must be all that call it."""
        again = self.checker.read(self.patched(context.call), variant)
        true = self.contexts.checker.read(context.call, variant)
        self.note(again.errors)
        if again.traces[0].outcome is not true.traces[0].outcome or set(again.taps) != set(true.taps):
            self.wider[variant] = None

    def note(self, errors: Iterable[PackError]) -> None:
        """Keep errors, but for those that the true program has itself."""
        self.found.extend(error for error in errors if error.at not in self.contexts.faulty_places)

    def alike(
        self, equation: Equation, value: Value, scope: CheckedScope, context: Context, variant: Variant
    ) -> bool:
        """Whether nobody can tell a patched equation from the true one by axes, sizes, taps and state."""
        if equation.name in context.env and not self.same(value, context.env[equation.name]):
            return False
        if not scope.state and not set(scope.taps) - {equation.name}:
            return True
        old = context.call.function.equation(equation.name)
        if old is None:
            return False
        true = CheckedScope(self.contexts.checker, context.call, variant)
        true.resume(context.env, old)
        true.again(old)
        self.moved |= scope.state.keys() != true.state.keys()
        return scope.taps.keys() == true.taps.keys() and scope.state == true.state

    def same(self, one: Value, other: Value) -> bool:
        """Whether two values are of one kind and the same axes, of sizes that are or may be equal."""
        if one is UNKNOWN:
            return True
        if not (isinstance(one, Named) and isinstance(other, Named)):
            return type(one) is type(other) and bool(one == other)
        sizes = dict(zip(other.axes, other.array.sizes, strict=True))
        return (
            one.array.kind in (other.array.kind, "any")
            and set(one.axes) == set(other.axes)
            and all(
                size == sizes[axis] or self.checker.may_agree(size, sizes[axis])
                for axis, size in zip(one.axes, one.array.sizes, strict=True)
            )
        )

    def parameters(self, function: Function, variant: Variant, changed: Sequence[Equation]) -> None:
        """A mistake has no parameters that the true program does not have."""
        known = self.contexts.parameters_in(variant)
        for equation in changed:
            expression = equation.pick(variant.choices)
            if expression is None:
                continue
            for call in calls_in(expression):
                have = known.of(self.contexts.checker.program.functions[function.name])
                missing = [name for name in known.of_call(call, expression) if name not in have]
                if missing and not self.elsewhere(missing, variant):
                    message = f"the true program has no parameter '{missing[0]}' in {function.name}"
                    self.found.append(PackError(message, expression.at))

    def elsewhere(self, missing: Sequence[str], variant: Variant) -> bool:
        """Whether another function has declared such parameters under the same prefix."""
        patched = VariantParameters(self.program, variant.choices, self.checker.numbers)
        true = self.contexts.parameters_in(variant)
        for root in self.contexts.roots:
            names = patched.of(self.program.functions[root.function])
            concerned = {n for n in names if any(f".{n}".endswith(f".{m}") for m in missing)}
            if concerned and concerned <= set(true.of(true.program.functions[root.function])):
                return True
        return False


@lru_cache(maxsize=4096)
def _same_tree(one: ast.expr, other: ast.expr) -> bool:
    return ast.dump(one) == ast.dump(other)


def _differs(old: Equation | None, new: Equation, variant: Variant) -> bool:
    """Whether a patched equation is another one in a variant."""
    before = old.pick(variant.choices) if old else None
    after = new.pick(variant.choices)
    if before is None or after is None:
        return before is not after
    if old and old.at_least_float32 != new.at_least_float32:
        return True
    return before.tree is not after.tree and not _same_tree(before.tree, after.tree)
