"""What each page of the site holds, out of the pack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from conformance.claim_lines import equation_of
from conformance.judging.kinds import KINDS
from conformance.language.expression import parse
from conformance.language.parameters import callee, calls_in
from conformance.language.program import Equation, Mistake, Program, reachable
from conformance.pack.load import cases_of
from conformance.pack.model import Case, Claim, Pack, Statement
from conformance.site import mathml


@dataclass(frozen=True)
class Formula:
    """An equation, or a condition, typeset; `when` is the choice under which it holds."""

    markup: Markup
    when: str = ""


@dataclass(frozen=True)
class Shown:
    """A claim with all that its page says of it. `mistakes` are those that it is there to catch."""

    claim: Claim
    formulas: tuple[Formula, ...]
    call: str
    tensors: Mapping[str, tuple[str, ...]]
    cases: tuple[Case, ...]
    mistakes: tuple[Mistake, ...]
    when: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Question:
    """A page: the statements of a question, each with its claims, and claims beyond the document."""

    id: str
    file: str
    statements: tuple[tuple[Statement, tuple[str, ...]], ...]
    claims: tuple[Shown, ...]


@dataclass(frozen=True)
class Patch:
    """A mistake: what it puts in place of which equation, and the claims that are about it."""

    mistake: Mistake
    replaced: tuple[tuple[str, tuple[Formula, ...], tuple[Formula, ...]], ...]
    claims: tuple[Claim, ...]


def questions(pack: Pack) -> tuple[Question, ...]:
    """The pages of the questions, in the order of the pack."""
    found = []
    for name in pack.questions:
        prefix = f"{name[0]}{name[1:].lstrip('0')}."
        statements = tuple(
            (statement, tuple(c.id for c in pack.claims.values() if statement.id in c.statements))
            for statement in pack.statements.values()
            if statement.id.startswith(prefix)
        )
        claims = tuple(shown(pack, claim) for claim in pack.claims.values() if claim.question == name)
        found.append(Question(name, f"{name.lower()}.html", statements, claims))
    return tuple(found)


def shown(pack: Pack, claim: Claim) -> Shown:
    """All that is said of a claim."""
    operation = pack.operations[claim.operation]
    tensors: dict[str, tuple[str, ...]] = {}
    for name in sorted(KINDS[claim.kind].reads(claim)):
        if name in operation.outputs:
            tensors[name] = tuple(operation.outputs[name])
        elif name in pack.program.tensors:
            tensors[name] = pack.program.tensors[name].axes
    call = (equation_of(pack, claim) or "") if claim.kind == "golden" else ""
    when = tuple((name, ", ".join(values)) for name, values in claim.when.items())
    return Shown(
        claim,
        tuple(_formulas(pack, claim)),
        call,
        tensors,
        tuple(cases_of(pack, claim)),
        tuple(_mistakes(pack, claim)),
        when,
    )


def patches(pack: Pack) -> tuple[Patch, ...]:
    """All mistakes, in the order of the pack."""
    about: dict[str, list[Claim]] = {}
    for claim in pack.claims.values():
        for mistake in _mistakes(pack, claim):
            about.setdefault(mistake.id, []).append(claim)
    return tuple(
        _patch(pack, mistake, tuple(about.get(mistake.id, ()))) for mistake in pack.program.mistakes.values()
    )


def _patch(pack: Pack, mistake: Mistake, claims: tuple[Claim, ...]) -> Patch:
    replaced = []
    for (function, name), equation in mistake.replace.items():
        right = pack.program.functions[function].equation(name)
        keys = set(equation.alternatives)
        before = (
            tuple(f for f in _alternatives(right) if f.when in keys or not right.by or len(keys) == 1)
            if right
            else ()
        )
        replaced.append(
            (
                f"{function}.{name}",
                before or (tuple(_alternatives(right)) if right else ()),
                tuple(_alternatives(equation)),
            )
        )
    return Patch(mistake, tuple(replaced), claims)


def _formulas(pack: Pack, claim: Claim) -> Iterator[Formula]:
    if claim.kind == "equation":
        tensor = pack.program.tensors[str(claim.body)]
        equation = pack.program.functions[tensor.functions[0]].equation(tensor.name)
        if equation is not None:
            yield from _alternatives(equation)
    elif claim.kind == "holds":
        yield Formula(mathml.formula(parse(str(claim.body), claim.at)))


def _alternatives(equation: Equation) -> Iterator[Formula]:
    for key, expression in equation.alternatives.items():
        yield Formula(mathml.equation(equation.name, expression), key)


def _mistakes(pack: Pack, claim: Claim) -> Iterator[Mistake]:
    """Mistakes that a claim is about: those that patch a tensor that it reads, or that it names."""
    named = getattr(claim.body, "mistake", None)
    reads = KINDS[claim.kind].reads(claim)
    operation = pack.operations[claim.operation]
    reached = reachable(pack.program, operation.function, _calls(pack.program))
    for mistake in pack.program.mistakes.values():
        about = any(function in reached and name in reads for function, name in mistake.replace)
        if mistake.id == named or about:
            yield mistake


def _calls(program: Program) -> dict[str, set[str]]:
    """Of each function, the functions that it may call."""
    return {
        name: {callee(call)[0] for expression in function.expressions() for call in calls_in(expression)}
        for name, function in program.functions.items()
    }


def unsettled(statements: Sequence[Statement]) -> list[Statement]:
    """Those that no claim decides."""
    return [statement for statement in statements if statement.settled != "T"]
