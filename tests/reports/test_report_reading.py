"""What reports are made of: the claims, the ladder, the cause."""

import pytest
from reports_helpers import PLACE, SCALE, claim, end, failed, failing, passing, results, run, text, verdict

from conformance.reports.reading import report_of


def test_a_passing_run():
    report = report_of(results(passing()))
    assert report.conforms is True
    assert report.sentence.en.startswith("conforms in all it offers")
    assert report.problems == ()
    assert report.first is None
    assert [r.name for r in report.ladder] == ["operation", "layer", "model", "decode", "graph"]
    assert [r.empty for r in report.ladder] == [False, True, False, True, True]
    assert report.counts["pass"] == 3
    assert report.facts["pack"] == "forward-pass 0.1.0"
    assert report.environment == {"platform": "Linux", "target.python": "3.11.7", "target.numpy": "2.1.0"}


def test_each_broken_claim_once_with_its_worst_case():
    report = report_of(results(failing()))
    assert [p.claim.id for p in report.problems] == ["q006.attention", "q005.residual", "q007.weights"]
    attention = report.problems[0]
    assert len(attention.broken) == 2
    assert len(attention.verdicts) == 3
    assert attention.worst.case == "causal"
    assert attention.worst.off == "130,000"
    assert attention.worst.evidence is not None
    assert attention.worst.evidence.index == "head 1, query 2, key 3"
    assert attention.where is not None
    assert attention.where.at == "my_model.py:41"
    assert report.problems[2].worst.off == "NaN"
    assert [r.name for r in report.ladder if r.first_broken] == ["operation"]


def test_the_cause_is_that_of_the_claim_to_look_at_first():
    report = report_of(results(failing()))
    assert [c.name for c in report.causes] == ["scale-by-model-width"]
    assert report.causes[0].claims == ("q006.attention", "q007.weights")


def test_where_no_mistake_fits_the_node_that_was_read_comes_before_numbers_that_follow():
    node = {"node": "/layers.0/Mul", "op_type": "Mul"}
    lines = [
        run(),
        claim("q005.logits", "model"),
        failed("q005.logits", "model", where={"node": "/layers.0/MatMul_1", "op_type": "MatMul"}),
        claim("q005.graph-scale", "graph"),
        failed("q005.graph-scale", "graph", where=node, evidence=None),
        end(False, {"rung": "model", "claim": "q005.logits", "tensor": "logits"}),
    ]
    report = report_of(results(lines))
    assert report.first.claim.id == "q005.graph-scale"
    assert report.where.node == "/layers.0/Mul"


def test_mistakes_that_one_claim_cannot_tell_apart_do_not_make_another_cause():
    other = {"mistake": "scale-missing", "fit": 0.4, "says": text("No scale.")}
    lines = [
        run(),
        failed("a", diagnosis=[SCALE]),
        failed("b", diagnosis=[SCALE, other]),
        failed("c", diagnosis=[{"mistake": "no-mask", "fit": 1, "says": text("No mask.")}]),
        failed("d", consequence_of="scale-by-model-width"),
        end(False, {"rung": "operation", "claim": "a", "tensor": "z"}),
    ]
    report = report_of(results(lines))
    assert [c.name for c in report.causes] == ["scale-by-model-width", "no-mask"]
    assert report.causes[0].claims == ("a", "b")
    assert report.follows == {"b": "scale-by-model-width", "d": "scale-by-model-width"}
    assert [p.claim.id for p in report.problems] == ["a", "c", "b", "d"]


def caused(**more):
    cause = {
        "mistakes": ["scale-by-model-width"],
        "says": SCALE["says"],
        "where": PLACE,
        "claims": ["b", "c"],
        "verdicts": 9,
    }
    said = text(
        "everything red follows from scale-by-model-width", "所有未通过的判定都源于 scale-by-model-width"
    )
    lines = [
        run(),
        *(failed(name, diagnosis=[] if name == "a" else [SCALE]) for name in "abc"),
        end(False, {"rung": "operation", "claim": "a", "tensor": "z"}, cause=said, causes=[cause | more]),
    ]
    return report_of(results(lines))


def test_the_causes_of_the_end_line_are_taken():
    report = caused()
    assert report.causation.en == "everything red follows from scale-by-model-width"
    assert [c.name for c in report.causes] == ["scale-by-model-width"]
    assert report.follows == {"c": "scale-by-model-width"}
    assert report.first is not None
    assert report.first.claim.id == "b"
    assert report.where is not None
    assert report.where.at == "my_model.py:41"


def test_mistakes_that_fit_alike_are_named_together():
    assert caused(mistakes=["m1", "m2"]).causes[0].name == "m1 / m2"
    assert caused(claims=[]).causes[0].claims == ("b", "c")  # no cause: those that the verdicts name


def test_what_was_not_graded_is_grouped_by_reason():
    report = report_of(results(failing()))
    assert [(r.says.en, r.claims) for r in report.refused] == [
        ("the target defines no `Model`", ("q005.logits", "q005.causal")),
        ("the target defines no `rope`", ("q005.rope",)),
    ]


def test_an_interrupted_run_has_no_result():
    report = report_of(results(failing()[:-1]))
    assert report.conforms is None
    assert report.sentence.en.startswith("interrupted: 9 verdicts so far, 4 of them broken")
    assert report.sentence.zh.startswith("评测中断")
    assert "interrupted" in report.notes[0].en
    assert report.first_broken == {"rung": "operation", "claim": "q006.attention", "tensor": "z"}


def test_a_should_that_fails_is_shown_after_the_must():
    lines = [
        run(),
        failed("should", level="SHOULD"),
        failed("must"),
        end(False, {"rung": "operation", "claim": "must", "tensor": "z"}),
    ]
    report = report_of(results(lines))
    assert [p.claim.id for p in report.problems] == ["must", "should"]


@pytest.mark.parametrize("value", [None, 7, "text", [], {}, [1], {"en": 3}, True, [[{}]], {"a": None}])
def test_nothing_in_a_file_is_taken_for_granted(value):
    def spoilt(line: dict[str, object]) -> dict[str, object]:
        return {key: line[key] if key in ("kind", "id", "schema") else value for key in line}

    lines = [run() | {"schema": 1}, *(spoilt(line) for line in failing()[1:])]
    report = report_of(results(lines))
    assert report.conforms in (True, False)
    bare = [{"kind": "run"}, {"kind": "claim", "id": "x"}, {"kind": "verdict"}, {"kind": "end"}]
    assert report_of(results(bare)).graded


def test_rungs_and_verdicts_of_a_newer_version_stand_at_the_end():
    lines = [
        run(),
        verdict("a", "galaxy", "sublime"),
        verdict("b", "galaxy", "fail"),
        claim("c", "model"),
        end(False),
    ]
    report = report_of(results(lines))
    assert [r.name for r in report.ladder][-1] == "galaxy"
    assert len(report.graded) == 2
