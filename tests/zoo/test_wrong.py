"""Every fault of the zoo is caught, by a claim that is about it, however the file is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoo.rename import rename
from zoo.zoo_grading import FOLDER, WRONG, Zoo, broken, told, wrong_file

KINDS = range(1, 47)
"""Ranks of the kinds of mistakes met in public code."""


def test_each_file_has_its_entry_and_each_entry_its_file() -> None:
    assert sorted(path.stem for path in (FOLDER / "wrong").glob("*.py")) == sorted(WRONG)


def test_at_least_sixty_files_cover_every_kind_of_mistake() -> None:
    assert len(WRONG) >= 60
    assert {entry["kind"] for entry in WRONG.values()} == set(KINDS)


def test_each_entry_names_claims_and_a_must_unless_it_says_otherwise(zoo: Zoo) -> None:
    for name, entry in WRONG.items():
        assert 1 <= len(entry["claims"]) <= 3, name
        levels = {zoo.pack.claims[claim].level for claim in entry["claims"]}
        assert levels == {entry.get("only", "MUST")}, name


@pytest.mark.parametrize("name", WRONG)
def test_the_fault_is_caught_by_the_claims_about_it(name: str, zoo: Zoo) -> None:
    verdicts = zoo.verdicts(wrong_file(name))
    red = {verdict.claim for verdict in broken(verdicts)}
    assert set(WRONG[name]["claims"]) <= red, f"red: {sorted(red)}"
    # `conforms` is decided by the MUST: none is red where only a SHOULD can see the fault.
    must = any(verdict.level == "MUST" for verdict in broken(verdicts))
    assert must == (WRONG[name].get("only") != "SHOULD"), told(list(broken(verdicts)))


@pytest.mark.parametrize("name", WRONG)
def test_other_names_in_another_order_change_nothing(name: str, zoo: Zoo, tmp_path: Path) -> None:
    path = tmp_path / "submission.py"
    path.write_text(rename(wrong_file(name).read_text(encoding="utf-8")).text, encoding="utf-8")
    verdicts = zoo.verdicts(path, WRONG[name]["claims"])
    assert set(WRONG[name]["claims"]) == {verdict.claim for verdict in broken(verdicts)}
