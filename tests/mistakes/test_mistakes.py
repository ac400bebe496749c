"""Every mistake changes something, in every form, and no two mistakes are one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pytest

from conformance.language.arithmetic import Array
from conformance.language.program import Mistake, Program
from conformance.plan.scenario import Scenario
from mistakes.readings import FAR, apart, pack, patched, scenarios, touched, true

RANKS = 46
NOT_EXPRESSED = {
    15: "dropout is chance, and the program has none",
    40: "the program changes nothing in place",
}
"""Kinds of mistakes met in public code that are no function of the inputs; the tests' zoo stands for them."""
EQUAL = 1e-9
"""Two float64 readings of the same function differ by less, in parts of the largest entry."""


@dataclass(frozen=True, eq=False)
class Form:
    """A mistake in one of its forms."""

    mistake: Mistake
    form: Mapping[str, str]
    program: Program

    def __repr__(self) -> str:
        return " ".join([self.mistake.id, *(f"{k}={v}" for k, v in self.form.items())])

    @property
    def functions(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.mistake.replace)


def forms(mistake: Mistake) -> list[Form]:
    return [Form(mistake, form, pack().program.mistaken(mistake, form)) for form in mistake.forms()]


OF_RANGE = ("silu-overflows",)
"""The same formula but for its range: float64 does not show it, the self-test's float32 does."""


def test_a_mistake_of_range_is_the_same_formula_in_float64() -> None:
    for name in OF_RANGE:
        for form in forms(pack().program.mistakes[name]):
            for scenario in scenarios():
                if touched(scenario, form.functions):
                    assert apart(patched(scenario, form.program), true(scenario)) <= FAR


@pytest.mark.parametrize("name", [name for name in pack().program.mistakes if name not in OF_RANGE])
def test_every_form_changes_what_comes_out(name: str) -> None:
    mistake = pack().program.mistakes[name]
    for form in forms(mistake):
        assert any(
            apart(patched(scenario, form.program), true(scenario)) > FAR
            for scenario in scenarios()
            if touched(scenario, form.functions) and patched(scenario, form.program) is not None
        ), f"{form!r} makes no difference in any case"


def test_no_two_mistakes_are_one() -> None:
    mistakes = [m for name, m in pack().program.mistakes.items() if name not in OF_RANGE]
    everything = [form for mistake in mistakes for form in forms(mistake)]
    groups = [everything]
    for scenario in scenarios():
        groups = [
            part for group in groups for part in (told_apart(scenario, group) if mixed(group) else [group])
        ]
    assert [sorted({form.mistake.id for form in group}) for group in groups if mixed(group)] == []


def mixed(group: Iterable[Form]) -> bool:
    return len({form.mistake.id for form in group}) > 1


def told_apart(scenario: Scenario, group: list[Form]) -> list[list[Form]]:
    """The forms that make the same of a scenario, together."""
    parts: list[tuple[list[Array] | None, list[Form]]] = []
    for form in group:
        made = patched(scenario, form.program) if touched(scenario, form.functions) else true(scenario)
        for like, part in parts:
            if apart(made, like) <= EQUAL:
                part.append(form)
                break
        else:
            parts.append((made, [form]))
    return [part for _, part in parts]


def test_every_kind_of_mistake_is_there() -> None:
    kinds = {mistake.kind for mistake in pack().program.mistakes.values()}
    assert kinds == set(range(1, RANKS + 1)) - set(NOT_EXPRESSED)


@pytest.mark.parametrize("name", pack().program.mistakes)
def test_every_mistake_is_said_in_one_breath(name: str) -> None:
    says = pack().program.mistakes[name].says
    assert says.en.endswith(".")
    assert says.zh.endswith("。")
    # One sentence: what is wrong, then what is right.
    assert says.en.count(". ") == 0
    assert len(says.en) <= 200
