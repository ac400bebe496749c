"""The zoo's wrong adapters make what the pack's mistakes say that they make: each proves the other.

An adapter in float64 and the patched program are the same function of the inputs wherever the adapter
answers, in one of the mistake's forms; where the mistake makes no difference, the adapter is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.diagnosis.answers import counted
from conformance.grading import Grader
from conformance.judging.bench import Bench
from conformance.judging.common import Question
from conformance.judging.observe import Observation
from conformance.language.arithmetic import Array, Float64
from conformance.language.program import Program
from conformance.pack.model import Case, Operation
from conformance.plan.items import entry_point
from conformance.plan.scenario import Scenario, Tensors
from conformance.plan.scenarios import Scenarios
from conformance.plan.variants import resolve
from conformance.session import Limits, Session
from mistakes.readings import CLOSE, FAR, RAISES, apart_where, pack

ZOO = Path(__file__).parent.parent / "zoo"
WRONG: Mapping[str, Mapping[str, Any]] = yaml.safe_load((ZOO / "wrong.yaml").read_text(encoding="utf-8"))

NO_FUNCTION = frozenset(name for name, entry in WRONG.items() if entry.get("named") is False)
"""Files whose mistake the program cannot make; `wrong.yaml` says why."""
NOT_COMPARED = {
    "minimal_cache_uninitialised": "what it reads is whatever the memory holds",
    "block_norm_over_tokens": "the mistake is in its second norm alone, the patch in all of them",
}
ELSEWHERE = {
    # Cached keys are rotated by where they stand, which the program does not remember: it counts back from the first
    # of the call, so positions that leave gaps come out otherwise.
    "llama_keys_rotated_again": {"decode-positions"},
}
"""Cases in which a file and its mistake are two functions, and why."""


def named() -> list[str]:
    return [name for name in WRONG if name not in NO_FUNCTION and name not in NOT_COMPARED]


def test_a_file_has_a_mistake_unless_it_is_no_function_of_its_inputs() -> None:
    without = {name for name, entry in WRONG.items() if entry["mistake"] not in pack().program.mistakes}
    assert without <= NO_FUNCTION


@cache
def made() -> Scenarios:
    return Scenarios(pack())


def cases(name: str, operation: Operation) -> Iterator[Case]:
    for case in pack().cases.values():
        if case.operation == operation.name:
            yield case
    if name == "minimal_pad_mask_on_head_axis" and operation.model:
        # It raises unless there are as many sequences as heads.
        padded = pack().cases["model-left-padding"]
        yield replace(padded, id="model-left-padding-heads", sizes={**padded.sizes, "B": padded.sizes["H"]})


@dataclass
class Answer:
    """What an adapter made of one scenario, and where that counts."""

    scenario: Scenario
    seen: Observation
    right: list[Tensors]
    counts: list[dict[str, Array | None]]

    def apart(self, other: list[Tensors], got: bool) -> float:
        """How far what came (`got`), or else what is right, is from another reading."""
        worst = 0.0
        for i, step in enumerate(self.seen.steps if got else self.right):
            for name, tensor in step.outputs.items():
                if name in self.seen.steps[i].outputs and name in other[i].outputs:
                    want = other[i].outputs[name].array
                    worst = max(worst, apart_where(tensor.array, want, self.counts[i].get(name)))
        return worst


@dataclass
class Tried:
    """One form of a mistake held against an adapter: where it differs from the truth and fits, and where it does not."""

    form: Mapping[str, str]
    fits: list[str] = field(default_factory=list)
    misfits: list[str] = field(default_factory=list)


def answers(name: str) -> Iterator[list[Answer]]:
    """All answers of an adapter, by operation and variant."""
    names = [entry_point(operation) for operation in pack().operations.values()]
    everything = name == "attention_fully_masked_nan"  # the only one about rows that count for no other
    with Session(ZOO / "wrong" / f"{name}.py", names=names, limits=Limits(timeout=20.0)) as session:
        offer = session.open()
        graded = resolve(pack(), offer.variants, [])
        bench = Bench(session, offer)
        grader = Grader.of(pack(), bench, graded, 0)
        for operation in pack().operations.values():
            for variant in graded.variants if entry_point(operation) in offer.functions else ():
                either = grader.either(operation, variant, "float64")
                found = []
                for case in cases(name, operation):
                    scenario = made().of(case, variant, either)
                    if scenario is None:
                        continue
                    seen = bench.observe(scenario, "float64")
                    if seen.failed is None and seen.steps:
                        right = bench.expected(scenario)
                        counts = [{} for _ in right] if everything else counted(question(scenario, bench))
                        found.append(Answer(scenario, seen, right, counts))
                yield found


def question(scenario: Scenario, bench: Bench) -> Question:
    return Question(next(iter(pack().claims.values())), scenario, "float64", bench)


def held_against(program: Program, tried: Tried, found: list[Answer]) -> Tried:
    for answer in found:
        try:
            other = answer.scenario.read(Float64(), program)
        except RAISES:
            tried.misfits.append(answer.scenario.case.id)
            continue
        if answer.apart(other, got=True) > CLOSE:
            tried.misfits.append(answer.scenario.case.id)
        elif answer.apart(other, got=False) > FAR:
            tried.fits.append(answer.scenario.case.id)
    return tried


@pytest.mark.parametrize("name", named())
def test_the_adapter_makes_the_mistake(name: str) -> None:
    mistake = pack().program.mistakes[WRONG[name]["mistake"]]
    fits = 0
    for found in answers(name):
        if all(answer.apart(answer.right, got=True) <= CLOSE for answer in found):
            continue  # another function of the same file, and right
        forms = [
            held_against(pack().program.mistaken(mistake, form), Tried(form), found)
            for form in mistake.forms()
        ]
        best = min(forms, key=lambda tried: (len(tried.misfits), -len(tried.fits)))
        assert set(best.misfits) == ELSEWHERE.get(name, set()), f"{mistake.id} {dict(best.form)}: {best}"
        fits += len(best.fits)
    assert fits, f"{name} never differs from what is right as {mistake.id} does"


@pytest.mark.parametrize("name", WRONG)
def test_a_file_and_its_mistake_are_of_one_kind(name: str) -> None:
    mistake = pack().program.mistakes.get(WRONG[name]["mistake"])
    assert mistake is None or mistake.kind == WRONG[name]["kind"]
