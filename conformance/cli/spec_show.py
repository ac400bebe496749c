"""What `conformance spec show` says of one thing of the pack."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from conformance.claim_lines import equation_of
from conformance.language.errors import PackError, suggestion
from conformance.language.program import Text
from conformance.pack.load import cases_of
from conformance.pack.model import Case, Claim, Pack


def describe(pack: Pack, identifier: str, lang: str) -> Iterator[str]:
    """Lines about a claim, statement, case, mistake or tensor. Raises `PackError` for none of them."""

    def said(text: Text) -> str:
        return text.zh if lang == "zh" else text.en

    if identifier in pack.claims:
        yield from _claim(pack, pack.claims[identifier], said)
    elif identifier in pack.statements:
        statement = pack.statements[identifier]
        yield f"{statement.id} ({statement.settled}): {said(statement.says)}"
        if statement.reason:
            yield f"  {said(statement.reason)}"
        for claim in pack.claims.values():
            if identifier in claim.statements:
                yield f"  {claim.id:44} {claim.rung:9} {said(claim.title)}"
    elif identifier in pack.cases:
        yield from _case(pack.cases[identifier], said)
    elif identifier in pack.program.mistakes:
        mistake = pack.program.mistakes[identifier]
        yield f"{mistake.id}: {said(mistake.says)}"
        for (function, name), equation in mistake.replace.items():
            for key, expression in equation.alternatives.items():
                yield f"  {function}.{name}{f' ({key})' if key else ''} = {expression}"
    elif identifier in pack.program.tensors:
        tensor = pack.program.tensors[identifier]
        yield f"{tensor.name} [{' '.join(tensor.axes)}]: {said(tensor.says)}"
        for function in tensor.functions:
            stage = pack.program.functions[function].equation(tensor.name)
            for key, expression in () if stage is None else stage.alternatives.items():
                yield f"  {function}: {tensor.name}{f' ({key})' if key else ''} = {expression}"
    else:
        known = [*pack.claims, *pack.statements, *pack.cases, *pack.program.mistakes, *pack.program.tensors]
        raise PackError(
            f"there is no claim, statement, case, mistake or tensor '{identifier}'",
            hint=suggestion(identifier, known),
        )


def _claim(pack: Pack, claim: Claim, said: Callable[[Text], str]) -> Iterator[str]:
    yield f"{claim.id}: {said(claim.title)}"
    yield f"  {said(claim.says)}"
    yield f"  {claim.level}, rung {claim.rung}, of {claim.operation}, kind {claim.kind}"
    for statement in claim.statements:
        yield f"  {statement}: {said(pack.statements[statement].says)}"
    if claim.source:
        yield f"  source: {claim.source}"
    formula = equation_of(pack, claim)
    if formula:
        yield f"  {formula}"
    if claim.where:
        yield f"  where {claim.where}"
    if claim.when:
        yield "  when " + ", ".join(f"{name} is {' or '.join(values)}" for name, values in claim.when.items())
    yield f"  at {claim.at}"
    for case in cases_of(pack, claim):
        yield f"  case {case.id}: {said(case.purpose)}"


def _case(case: Case, said: Callable[[Text], str]) -> Iterator[str]:
    yield f"{case.id} (of {case.operation}): {said(case.purpose)}"
    yield "  " + ", ".join(f"{symbol}={size}" for symbol, size in case.sizes.items())
    if case.schedule:
        yield f"  in calls of {', '.join(map(str, case.schedule))} tokens, with one cache"
    for name, draw in case.given.items():
        yield f"  {name}: {'left out' if draw is None else f'{draw.form} {draw.value}'}"
    yield f"  at {case.at}"
