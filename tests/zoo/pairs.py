"""Two mistakes at a time: the program with both made, graded as a submission whose files nobody sees.

A pair of files cannot be grafted honestly in general (each is written in its own way), a pair of
mistakes can: both are patches of one program. Pairs lie in different functions, and both must show
in the variant.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from conformance.diagnosis.causes import Cause, causes
from conformance.diagnosis.fit import Suspect
from conformance.diagnosis.answers import concerns
from conformance.diagnosis.naming import Namer
from conformance.golden.tolerances import known_tolerances
from conformance.grading import Grader
from conformance.plan.items import entry_points, plan
from conformance.judging.program_bench import NoSession, ProgramBench, offer_of
from conformance.pack.model import Pack, Variant
from conformance.plan.scenarios import Scenarios
from conformance.plan.selection import Selection, parse_selection
from conformance.plan.variants import Graded
from zoo.zoo_grading import WRONG, broken


@dataclass(frozen=True)
class Pair:
    """Two mistakes of the zoo, and a variant in which both say something."""

    names: tuple[str, str]
    variant: str


def pairs(pack: Pack, count: int, seed: int) -> Iterator[Pair]:
    """A seeded sample of pairs of the zoo's mistakes in different functions."""
    rng = random.Random(seed)
    mistakes = {e["mistake"] for e in WRONG.values() if e.get("named", True)}
    drawn: set[frozenset[str]] = set()
    while len(drawn) < count:
        one, other = rng.sample(sorted(mistakes), 2)
        variant = rng.choice(sorted(pack.variants))
        replaced = [
            {function for function, _ in pack.program.mistakes[name].replace} for name in (one, other)
        ]
        if frozenset((one, other)) in drawn or replaced[0] & replaced[1]:
            continue
        if all(shows(pack, name, pack.variants[variant]) for name in (one, other)):
            drawn.add(frozenset((one, other)))
            yield Pair((one, other), variant)


def shows(pack: Pack, name: str, variant: Variant) -> bool:
    """Whether a mistake alone makes a difference to an operation or a model in a variant."""
    mistake = pack.program.mistakes[name]
    if not concerns(pack.program, mistake, variant.choices):
        return False
    return bool(graded(pack, Suspect.of(pack.program, mistake, next(iter(mistake.forms()))), variant, SHORT))


SHORT = ("q005.logits", "q006.multi-head-attention", "q008.ffn", "q008.swiglu", "q005.layer")
"""Claims that see almost any fault, and quickly."""


def graded(
    pack: Pack, suspect: Suspect, variant: Variant, claims: Sequence[str] = ()
) -> tuple[Cause, ...]:
    """The causes that are named for a program with mistakes made, in one variant and float32."""
    known = [claim for claim in claims if claim in pack.claims]
    selection = parse_selection([",".join(known)], pack) if known else Selection()
    bench = ProgramBench(
        NoSession(),
        offer_of(entry_points(pack)),
        store=known_tolerances(pack),
        program=suspect.program,
        behaviour="",
    )
    chosen = Graded((variant,), (variant,))
    grader = Grader(pack, bench, chosen, Scenarios(pack, 0), {}, Namer(pack, bench))
    items = plan(pack, bench.offer, chosen, ["float32"], selection).items
    return causes(list(broken(list(grader.verdicts(items)))))


def named(pack: Pack, pair: Pair) -> set[str]:
    """Every mistake that is named for a pair, alone or together with others."""
    one, other = (pack.program.mistakes[name] for name in pair.names)
    first = Suspect.of(pack.program, one, next(iter(one.forms())))
    both = first.and_(Suspect.of(pack.program, other, next(iter(other.forms()))), other)
    found = graded(pack, both, pack.variants[pair.variant])
    return {name for cause in found for mistake in cause.mistakes for name in mistake.split(" + ")}
