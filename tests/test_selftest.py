"""The self-test itself: what it counts as exposed, idle and blind. The whole of it runs in CI by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.judging.program_bench import BEHAVIOURS
from conformance.locations import bundled
from conformance.pack.load import load_pack
from conformance.selftest import TRUE, Catch, Laboratory, Report, Task, Trial, table, tasks

PACK: Path = bundled("spec") / "forward-pass"


@pytest.fixture(scope="module")
def laboratory() -> Laboratory:
    """One laboratory for all trials of this file."""
    return Laboratory(load_pack(PACK))


def trial(name: str, margin: float, seen_in: frozenset[str] = frozenset()) -> Trial:
    """A trial in which one claim sees the mistake by `margin` tolerances."""
    catches = (Catch("q000.claim", "case", "minimal", margin, "fail"),) if margin else ()
    return Trial(name, "", "float32", catches, seen_in)


def test_a_mistake_is_exposed_by_claims_about_it(laboratory: Laboratory) -> None:
    found = laboratory.trial(Task("eps-outside"))
    assert found.margin >= 10
    assert "q008.layer-norm-eps" in {catch.claim for catch in found.catches}


def test_a_mistake_of_no_named_variant_is_tried_in_another(laboratory: Laboratory) -> None:
    found = laboratory.trial(Task("gelu-tanh-for-erf"))
    assert found.margin >= 10
    assert found.seen_in == frozenset()  # sixteen bits cannot tell the two forms apart


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_what_no_equation_can_express_turns_a_claim_red(laboratory: Laboratory, behaviour: str) -> None:
    assert laboratory.trial(Task(behaviour)).catches


def test_every_form_of_a_mistake_is_a_task() -> None:
    pack = load_pack(PACK)
    forms = tasks(pack, "softmax-over-query")
    mistake = pack.program.mistakes["softmax-over-query"]
    assert len([task for task in forms if task.name == mistake.id]) == len(mistake.forms()) > 1
    assert [task.dtype for task in forms if task.name == TRUE] == [
        "float64",
        "float32",
        "float16",
        "bfloat16",
    ]


def test_ten_tolerances_are_needed() -> None:
    report = Report(("q000.claim",), (trial("mild", 9.0), trial("plain", 11.0)), ())
    assert [t.name for t in report.hidden()] == ["mild"]
    assert not report.passed


def test_a_claim_that_nothing_turns_red_is_named() -> None:
    report = Report(("q000.claim", "q000.idle"), (trial("plain", 11.0),), ())
    assert report.idle() == ["q000.idle"]
    assert not report.passed


def test_of_some_mistakes_no_claim_is_called_idle() -> None:
    assert Report(("q000.idle",), (trial("plain", 11.0),), (), complete=False).passed


def test_an_alarm_of_the_true_program_fails() -> None:
    report = Report(("q000.claim",), (trial("plain", 11.0),), (trial(TRUE, 2.0),))
    assert not report.passed


def test_a_narrow_dtype_is_blind_to_what_no_form_shows() -> None:
    shown = trial("shown", 11.0, frozenset({"float16"}))
    report = Report(("q000.claim",), (trial("shown", 11.0), shown, trial("unseen", 11.0)), ())
    assert report.blind("float16") == ["unseen"]
    assert report.blind("bfloat16") == ["shown", "unseen"]


def test_the_table_has_the_widest_margin_first() -> None:
    catches = (
        Catch("q000.near", "case", "minimal", 3.0, "fail"),
        Catch("q000.far", "case", "minimal", 30.0, "fail"),
        Catch("q000.near", "other", "minimal", 5.0, "fail"),
    )
    lines = list(table([Trial("mistake", "", "float32", catches)]))
    assert lines[0] == "mistake: 2 claims"
    assert [line.split()[0] for line in lines[1:]] == ["q000.far", "q000.near"]
    assert lines[2].split()[1] == "5"
