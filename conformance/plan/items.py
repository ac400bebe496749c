"""What is to be graded: which claims apply to an offer, each on which case, in the order of the ladder."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from conformance.judging.kinds import OF_GRAPHS
from conformance.language.program import Text, holds
from conformance.pack.load import cases_of
from conformance.pack.model import RUNGS, Case, Claim, Operation, Pack, Variant
from conformance.plan.selection import Selection
from conformance.plan.variants import Graded
from conformance.session import Offer
from conformance.told import told


@dataclass(frozen=True)
class Item:
    """One verdict to come: a claim on a case (None: it cannot be graded at all)."""

    claim: Claim
    case: Case
    variant: Variant
    dtype: str
    refusal: Text | None = None


@dataclass(frozen=True)
class Plan:
    """All items of a run, in the order of the ladder."""

    items: tuple[Item, ...]
    undeclared: bool


def plan(
    pack: Pack,
    offer: Offer,
    graded: Graded,
    dtypes: Sequence[str],
    selection: Selection,
    graph: bool = False,
) -> Plan:
    """What is to be graded of an offer; `graph`: it is a graph, and claims about graphs apply."""
    items: list[Item] = []
    for dtype in dtypes:
        for variant in graded.variants:
            for claim in pack.claims.values():
                name = None if graded.undeclared else variant.name
                if (graph or claim.kind not in OF_GRAPHS) and selection.includes(claim, name, dtype):
                    items += _items(pack, claim, variant, dtype, offer, graded)
    items.sort(key=lambda item: RUNGS.index(item.claim.rung))
    return Plan(tuple(items), graded.undeclared)


def _items(
    pack: Pack, claim: Claim, variant: Variant, dtype: str, offer: Offer, graded: Graded
) -> list[Item]:
    operation = pack.operations[claim.operation]
    choices = {**variant.choices, **operation.choices}
    free = graded.undeclared and not operation.needs_variant
    if not free and not holds(claim.when, choices):
        return []
    cases = [
        case
        for case in cases_of(pack, claim)
        if (not case.dtypes or dtype in case.dtypes)
        and (free or holds(case.when, {**choices, **case.choices}))
    ]
    if not cases:
        return []
    refusal = _refusal(operation, offer, graded)
    if refusal is not None:
        return [Item(claim, cases[0], variant, dtype, refusal)]
    return [Item(claim, case, variant, dtype) for case in cases]


def entry_point(operation: Operation) -> str:
    """The name that a target's file must define."""
    return "Model" if operation.model else operation.name


def entry_points(pack: Pack) -> list[str]:
    """The names that a target's file may define for the pack."""
    return [entry_point(operation) for operation in pack.operations.values()]


def _refusal(operation: Operation, offer: Offer, graded: Graded) -> Text | None:
    name = entry_point(operation)
    if name in offer.not_callable:
        what = offer.not_callable[name]
        return Text(f"`{name}` is {what}, not something to call", f"`{name}` 是{told(what).zh}，不可调用")
    if name not in offer.functions:
        close = difflib.get_close_matches(name, offer.others, n=1)
        return Text(
            f"the target defines no `{name}`" + (f"; is `{close[0]}` meant to be it?" if close else ""),
            f"该实现没有定义 `{name}`" + (f"；`{close[0]}` 是不是它？" if close else ""),
        )
    if operation.needs_variant and graded.undeclared:
        return Text(
            f'`{name}` needs a variant: add `variant = "minimal"` (or gpt2, llama, vaswani, or a dict with `base`) to the file',
            f'`{name}` 需要声明变体：请在文件中加入 `variant = "minimal"`（或 gpt2、llama、vaswani，或带 `base` 的字典）',
        )
    return None
