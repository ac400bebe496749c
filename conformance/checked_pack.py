"""A pack with every check made: what the command line opens.

Loading decodes the files and reads the program over symbolic sizes; here each claim must read
something that a target computed. Whether every statement is decided is asked by `spec check`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from conformance.judging.kinds import KINDS
from conformance.language.errors import PackError, PackErrors, suggestion
from conformance.pack.load import load_pack
from conformance.pack.model import Claim, Pack

ALWAYS_COMPUTED = frozenset({"arguments", "parameters"})


def open_checked(folder: Path, *, mistakes: bool = False) -> Pack:
    """The pack in `folder`, its claims checked as well; `mistakes` as in `load_pack`.

    Raises `PackError`, or `PackErrors` with all faults.
    """
    pack = load_pack(folder, mistakes=mistakes)
    errors = tuple(claim_errors(pack))
    if errors:
        raise PackErrors(errors) if len(errors) > 1 else errors[0]
    return pack


def claim_errors(pack: Pack) -> Iterator[PackError]:
    """Claims that read nothing which a target computed, and mistakes that they name in vain."""
    for claim in pack.claims.values():
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
