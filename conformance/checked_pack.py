"""A pack with every check made: what the command line opens.

Loading decodes the files and reads the program over symbolic sizes; here each claim must read
something that a target computed. Whether every statement is decided is asked by `spec check`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from conformance.judging.kinds import KINDS
from conformance.language.errors import Location, PackError, PackErrors, suggestion
from conformance.language.program import key_of
from conformance.pack.load import load_pack
from conformance.pack.model import Claim, Pack

ALWAYS_COMPUTED = frozenset({"arguments", "parameters"})


def open_checked(folder: Path, *, mistakes: bool = False) -> Pack:
    """The pack in `folder`, its claims checked as well; `mistakes` as in `load_pack`.

    Raises `PackError`, or `PackErrors` with all faults.
    """
    pack = load_pack(folder, mistakes=mistakes)
    errors = (*claim_errors(pack), *case_errors(pack))
    if errors:
        raise PackErrors(errors) if len(errors) > 1 else errors[0]
    return pack


def claim_errors(pack: Pack) -> Iterator[PackError]:
    """Claims that read nothing which a target computed, and what they name in vain: mistakes, choices."""
    for claim in pack.claims.values():
        yield from choice_errors(pack, claim.when, claim.at)
        known = computed(pack, claim)
        if not KINDS[claim.kind].reads(claim) & known:
            yield PackError(
                f"'{claim.id}' reads nothing that a target computed",
                claim.at,
                f"it can read {', '.join(sorted(known - ALWAYS_COMPUTED))}",
            )
        mistake = getattr(claim.body, "mistake", None)
        if mistake is not None and mistake not in pack.program.mistakes:
            yield PackError(
                f"unknown mistake '{mistake}'", claim.at, suggestion(mistake, pack.program.mistakes)
            )


def case_errors(pack: Pack) -> Iterator[PackError]:
    """Inputs and choices that a case names in vain, and calls that do not make up its tokens."""
    for case in pack.cases.values():
        yield from choice_errors(pack, case.when, case.at)
        operation = pack.operations[case.operation]
        functions = [operation.function, *filter(None, [operation.with_context])]
        known = {name for function in functions for name in pack.program.functions[function].given}
        for name in case.given:
            if name not in known:
                yield PackError(
                    f"'{name}' is no input of {operation.name}",
                    case.at,
                    suggestion(name, known) or f"there are {', '.join(sorted(known))}",
                )
        tokens = case.sizes.get("Tq", case.sizes.get("T"))
        if case.schedule and sum(case.schedule) != tokens:
            yield PackError(
                f"the calls of '{case.id}' have {sum(case.schedule)} tokens together, and T is {tokens}",
                case.at,
            )


def choice_errors(pack: Pack, when: Mapping[str, Sequence[str]], at: Location) -> Iterator[PackError]:
    """Choices, or values of them, that no variant can have: a condition on them never holds."""
    for name, values in when.items():
        if name not in pack.choices:
            yield PackError(f"unknown choice '{name}'", at, suggestion(name, pack.choices))
            continue
        allowed = [key_of(value) for value in pack.choices[name].values]
        for value in values:
            if allowed and value not in allowed:
                yield PackError(
                    f"{name}: '{value}' is not one of {', '.join(allowed)}", at, suggestion(value, allowed)
                )


def computed(pack: Pack, claim: Claim) -> frozenset[str]:
    """Names of what a target can make visible where the claim is decided."""
    operation = pack.operations[claim.operation]
    taps = (
        {name for name, tensor in pack.program.tensors.items() if tensor.offered} if operation.taps else set()
    )
    return frozenset(operation.outputs) | taps | ALWAYS_COMPUTED


def undecided(pack: Pack) -> Iterator[PackError]:
    """Statements that a test can settle and no MUST or SHOULD claim decides."""
    decided = {statement for claim in pack.claims.values() for statement in claim.statements}
    for statement in pack.statements.values():
        if statement.settled == "T" and statement.id not in decided:
            yield PackError(f"no claim decides {statement.id}: {statement.says.en}", statement.at)
