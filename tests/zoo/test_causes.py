"""Causes by name, and the line: what the whole zoo's failures are traced back to. The shares are printed (`pytest -s`)."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from conformance.diagnosis.causes import causes
from zoo.zoo_grading import WRONG, Zoo, broken, line_of_fault, wrong_file

NAMED = 0.95
"""Share of the faults that a patch of the program can be, whose mistake is among those named first."""
PLACED = 0.5
"""Share of all faults whose line is named. The aim is 0.95; not yet there, and the list is printed."""

pytestmark = pytest.mark.xdist_group("causes")


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


@pytest.fixture(scope="module")
def traced() -> list[Traced]:
    zoo = Zoo.opened()
    found = []
    for name in WRONG:
        red = list(broken(zoo.verdicts(wrong_file(name), diagnosed=True)))
        first = next(iter(causes(red)), None)
        place = first.place if first else next((v.judgement.place for v in red if v.judgement.place), None)
        found.append(Traced(name, first.mistakes if first else (), place.line if place else None))
    return found


def test_every_fault_is_a_mistake_of_the_pack_or_says_why_not(zoo: Zoo) -> None:
    for name, entry in WRONG.items():
        if entry.get("named", True):
            assert entry["mistake"] in zoo.pack.program.mistakes, name
            assert "why" not in entry, name
        else:
            assert entry["why"], name


def test_the_mistake_is_among_those_named_first(traced: list[Traced]) -> None:
    asked = [t for t in traced if WRONG[t.name].get("named", True)]
    missed = [t.name for t in asked if not t.named]
    share = 1 - len(missed) / len(asked)
    print(f"\nnamed: {len(asked) - len(missed)} of {len(asked)} ({share:.1%}); not: {', '.join(missed)}")
    assert share >= NAMED, missed


def test_no_name_is_wrong(traced: list[Traced]) -> None:
    wrong = [f"{t.name}: {', '.join(t.mistakes)}" for t in traced if t.mistakes and not t.named]
    assert not wrong, wrong


def test_the_line_is_that_of_the_fault(traced: list[Traced]) -> None:
    missed = [f"{t.name}:{t.line}" for t in traced if not t.placed]
    share = 1 - len(missed) / len(traced)
    print(f"\nplaced: {len(traced) - len(missed)} of {len(traced)} ({share:.1%}); not: {', '.join(missed)}")
    assert share >= PLACED, missed
