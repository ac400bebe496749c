"""What two targets have in common: variants, dtypes, and the cases that both offer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from conformance.language.program import Text
from conformance.pack.model import RUNGS, Pack
from conformance.plan.items import Item, plan
from conformance.plan.selection import Selection, SelectionError, unknown_variant
from conformance.plan.variants import Graded, resolve
from conformance.session import Call, Offer, Outcome, TargetError

if TYPE_CHECKING:
    from conformance.onnx.serving import Graph


class Answers(Protocol):
    """A target: a session with a worker, or whatever else makes calls."""

    def open(self) -> Offer:
        """Starts it. Raises `TargetError`."""

    def call(self, call: Call, dtype: str) -> Outcome:
        """Makes a call in a dtype."""


@dataclass
class Side:
    """One of the two: `letter` is A or B, `name` what the command line calls it."""

    letter: str
    name: str
    session: Answers
    last: Outcome | None = None
    graph: Graph | None = None
    """What was read of an ONNX file: it brings its sizes and weights along."""

    def open(self) -> Offer:
        """What it offers. Raises `TargetError` that says which side it is."""
        try:
            return self.session.open()
        except TargetError as error:
            message = f"{self.letter}, {error.message}"
            raise TargetError(message, error.hint, error.printed, error.traceback) from None

    def call(self, call: Call, dtype: str) -> Outcome:
        """As the session's, and remembered."""
        self.last = self.session.call(call, dtype)
        return self.last


Sides: TypeAlias = tuple[Side, Side]


@dataclass(frozen=True)
class Choice:
    """What the command line says of a comparison. Two dtypes are those of A and of B."""

    select: Selection = field(default_factory=Selection)
    variants: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True)
class Plan:
    """What is compared: variants that both are of, dtypes of A and B, and cases that both offer."""

    offers: tuple[Offer, Offer]
    graded: Graded
    dtypes: tuple[tuple[str, str], ...]
    items: tuple[tuple[Item, tuple[str, str]], ...]
    note: Text | None = None


def planned(pack: Pack, sides: Sides, choice: Choice) -> Plan:
    """Opens both. Raises `TargetError`, `VariantError` and `SelectionError`."""
    offers = sides[0].open(), sides[1].open()
    graded = common_variants(pack, offers, choice.variants)
    known = {*pack.variants, *(variant.name for variant in graded.variants)}
    if wrong := unknown_variant(choice.select, known, "--select"):
        raise SelectionError(wrong)
    pairs = common_dtypes(offers, choice.dtypes)
    items = []
    for pair in pairs:
        ours, theirs = (
            offered(pack, offer, graded, dtype, choice.select)
            for offer, dtype in zip(offers, pair, strict=True)
        )
        items += [(item, pair) for key, item in ours.items() if key in theirs]
    return Plan(offers, graded, pairs, tuple(items), _note(pack, offers, graded))


def offered(
    pack: Pack, offer: Offer, graded: Graded, dtype: str, selection: Selection
) -> dict[tuple[str, str], Item]:
    """The cases that a target offers, by case and variant: up the ladder, then in the order of the pack."""
    order = {case: i for i, case in enumerate(pack.cases)}
    found: dict[tuple[str, str], Item] = {}
    for item in plan(pack, offer, graded, [dtype], selection).items:
        if item.refusal is None:
            found.setdefault((item.case.id, item.variant.name), item)
    return dict(sorted(found.items(), key=lambda e: (RUNGS.index(e[1].claim.rung), order[e[0][0]])))


def _note(pack: Pack, offers: tuple[Offer, Offer], graded: Graded) -> Text | None:
    """What is to be said where both declare variants and none is compared."""
    if not graded.undeclared or not all(offer.variants for offer in offers):
        return None
    ours, theirs = (", ".join(v.name for v in resolve(pack, o.variants, ()).declared) for o in offers)
    return Text(
        f"No variant in common (A: {ours}; B: {theirs}): only what needs none is compared. "
        "--variant NAME compares both as that one.",
        f"没有共同的变体（A：{ours}；B：{theirs}）：只比较不依赖变体的部分。用 --variant NAME 让双方都按该变体比较。",
    )


def common_variants(pack: Pack, offers: tuple[Offer, Offer], asked: Sequence[str]) -> Graded:
    """The variants that both are graded as. Raises `VariantError`.

    One that declares none goes along with the other. Where both do and none is the same, only what
    needs no variant is compared.
    """
    if asked:
        return resolve(pack, [*offers[0].variants, *offers[1].variants], asked)
    ours, theirs = (resolve(pack, offer.variants, ()).declared for offer in offers)
    both = tuple(v for v in ours if any(v.choices == w.choices for w in theirs))
    found = both if ours and theirs else ours or theirs
    return Graded(found, found) if found else resolve(pack, (), ())


def common_dtypes(offers: tuple[Offer, Offer], asked: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Pairs of dtypes: what was asked for, else what both declare, else the first of each."""
    if asked:
        return ((asked[0], asked[-1]),)
    ours, theirs = (offer.dtypes for offer in offers)
    return tuple((d, d) for d in ours if d in theirs) or ((ours[0], theirs[0]),)
