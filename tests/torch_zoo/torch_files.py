"""The files of this zoo, what is wrong in them, and what diagnosis says of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from zoo.zoo_grading import Zoo, broken, line_of_fault

from conformance.diagnosis.causes import causes

FOLDER = Path(__file__).resolve().parent
WRONG: Mapping[str, Mapping[str, Any]] = yaml.safe_load((FOLDER / "wrong.yaml").read_text(encoding="utf-8"))
"""What is wrong in each file; its own head explains the keys."""
RIGHT = sorted(path.stem for path in (FOLDER / "right").glob("*.py"))


def wrong_file(name: str) -> Path:
    return FOLDER / "wrong" / f"{name}.py"


def right_file(name: str) -> Path:
    return FOLDER / "right" / f"{name}.py"


def lines_accepted(name: str) -> set[int]:
    """The line of the fault, and those that a person would accept as well."""
    path = wrong_file(name)
    lines = path.read_text(encoding="utf-8").split("\n")
    accepted = {line_of_fault(path)}
    for entry in WRONG[name].get("also", ()):
        (line,) = [i for i, text in enumerate(lines, 1) if entry["line"] in text]
        accepted.add(line)
    return accepted


@dataclass(frozen=True)
class Told:
    """What a failing file is told: what is red, the mistakes of its first cause, and the line."""

    name: str
    red: frozenset[str]
    mistakes: tuple[str, ...]
    line: int | None

    @property
    def placed(self) -> bool:
        return self.line in lines_accepted(self.name)


def told_of(zoo: Zoo, name: str) -> Told:
    """The claims about its fault, and their diagnosis."""
    red = list(broken(zoo.verdicts(wrong_file(name), WRONG[name]["claims"], diagnosed=True)))
    first = next(iter(causes(red)), None)
    place = first.place if first else next((v.judgement.place for v in red if v.judgement.place), None)
    return Told(
        name,
        frozenset(v.claim for v in red),
        first.mistakes if first else (),
        place.line if place else None,
    )
