"""Causes by name, and the line: what each failing file of the zoo is told. Correct ones: `test_right.py`.

What a file's first cause is need not be the only one that fits; where several do, the right one must
be among them, and no other may stand alone.
"""

from __future__ import annotations

import pytest

from conformance.diagnosis.causes import causes
from zoo.zoo_grading import WRONG, Zoo, broken, lines_accepted, wrong_file

NAMED = 0.95
"""Share of the faults that a patch of the program can be, whose mistake is among those named first."""
PLACED = 0.93
"""Share of all faults whose line is named. The aim is 0.95; the zoo's list says which are not yet."""


def test_every_fault_is_a_mistake_of_the_pack_or_says_why_not(zoo: Zoo) -> None:
    for name, entry in WRONG.items():
        if entry.get("named", True):
            assert entry["mistake"] in zoo.pack.program.mistakes, name
            assert "why" not in entry, name
        else:
            assert entry["why"], name


def test_the_shares_are_what_we_say() -> None:
    nameable = [entry for entry in WRONG.values() if entry.get("named", True)]
    assert len(nameable) / len(WRONG) > 0.85
    assert 1 - sum("unplaced" in entry for entry in WRONG.values()) / len(WRONG) >= PLACED
    assert all(entry["why"] for e in WRONG.values() for entry in e.get("also", ()))


@pytest.mark.parametrize("name", WRONG)
def test_the_fault_is_named_and_its_line_is_shown(name: str, zoo: Zoo) -> None:
    entry = WRONG[name]
    red = list(broken(zoo.verdicts(wrong_file(name), diagnosed=True)))
    first = next(iter(causes(red)), None)
    if entry.get("named", True):
        assert first is not None
        assert entry["mistake"] in first.mistakes
    else:
        assert first is None, "a wrong name is a defect"
    place = first.place if first else next((v.judgement.place for v in red if v.judgement.place), None)
    if "unplaced" in entry:
        assert place is None or place.line not in lines_accepted(name), "take it off the list"
    else:
        assert place is not None
        assert place.line in lines_accepted(name)
