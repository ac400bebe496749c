"""Causes by name, and the line: what the whole zoo's failures are traced back to. The shares are printed (`pytest -s`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from conformance.diagnosis.causes import causes
from zoo.zoo_grading import WRONG, Zoo, broken, line_of_fault, wrong_file

NAMED = 0.95
"""Share of the faults that a patch of the program can be, whose mistake is among those named first."""
PLACED = 0.5
"""Share of all faults whose line is named. The aim is 0.95; not yet there, and the list is printed."""


@dataclass(frozen=True)
class Traced:
    """What a failing file is told: the mistakes of its first cause, and the line."""

    name: str
    mistakes: tuple[str, ...]
    line: int | None

    @property
    def named(self) -> bool:
        return WRONG[self.name]["mistake"] in self.mistakes

    @property
    def placed(self) -> bool:
        return self.line == line_of_fault(wrong_file(self.name))


def traced(zoo: Zoo) -> Iterator[Traced]:
    """The whole zoo."""
    for name in WRONG:
        red = list(broken(zoo.verdicts(wrong_file(name), diagnosed=True)))
        first = next(iter(causes(red)), None)
        place = first.place if first else next((v.judgement.place for v in red if v.judgement.place), None)
        yield Traced(name, first.mistakes if first else (), place.line if place else None)


def test_every_fault_is_a_mistake_of_the_pack_or_says_why_not(zoo: Zoo) -> None:
    for name, entry in WRONG.items():
        if entry.get("named", True):
            assert entry["mistake"] in zoo.pack.program.mistakes, name
            assert "why" not in entry, name
        else:
            assert entry["why"], name


def test_faults_are_named_and_placed_and_no_name_is_wrong(zoo: Zoo) -> None:
    found = list(traced(zoo))
    asked = [t for t in found if WRONG[t.name].get("named", True)]
    unnamed = [t.name for t in asked if not t.named]
    misplaced = [f"{t.name}:{t.line}" for t in found if not t.placed]
    named, placed = 1 - len(unnamed) / len(asked), 1 - len(misplaced) / len(found)
    print(f"\nnamed: {named:.1%} of {len(asked)}; not: {', '.join(unnamed)}")
    print(f"placed: {placed:.1%} of {len(found)}; not: {', '.join(misplaced)}")
    wrong = [f"{t.name}: {', '.join(t.mistakes)}" for t in found if t.mistakes and not t.named]
    assert not wrong
    assert named >= NAMED, unnamed
    assert placed >= PLACED, misplaced
