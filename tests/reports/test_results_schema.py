import json

import pytest
from jsonschema import Draft202012Validator
from reports_helpers import PLACE, SCALE, claim, end, failed, failing, hostile, passing, run, verdict

from conformance.language.program import Text
from conformance.results.records import Diagnosis, Evidence, Judgement, Place, Verdict, verdict_line
from conformance.results.schema import faults, faults_of_file, schema_file
from conformance.results.summary import end_line, summarise


@pytest.fixture(scope="module")
def whole():
    return Draft202012Validator(json.loads(schema_file().read_text(encoding="utf-8")))


def test_the_schema_is_one(whole):
    Draft202012Validator.check_schema(whole.schema)


@pytest.mark.parametrize("lines", [passing(), failing(), hostile()], ids=["passing", "failing", "hostile"])
def test_every_line_fits_one_of_four_kinds(whole, lines):
    for line in lines:
        assert faults(line) == []
        assert whole.is_valid(line)


def real(verdict_name: str, **more: object) -> Verdict:
    return Verdict(
        "q1.a",
        "operation",
        "MUST",
        ("Q1.1",),
        "plain",
        None,
        "float32",
        Judgement(verdict_name, Text("a", "甲"), **more),
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "made",
    [
        real("pass", margin=0.5),
        real("unsupported"),
        real("error", place=Place("a.py", None)),
        real("error", place=Place("a.py", 3, "x", "y")),
        real("timeout", seconds=10.0),
        real(
            "fail", margin=float("inf"), reproduce="x", diagnosis=(Diagnosis("m", float("inf"), Text("a", "甲")),),
            evidence=Evidence("z", {"head": 1}, float("nan"), True, 0.0, {}),
        ),
        real(
            "fail", margin=float("nan"),
            evidence=Evidence("z", {}, 1.0, 2.0, 0.1, {"axes": ["key"], "fixed": {"head": 1}, "got": [[1.0, float("inf")]], "expected": [[1, 2]]}),
        ),
    ],
)  # fmt: skip
def test_what_the_tool_writes_fits(whole, made):
    line = json.loads(json.dumps(verdict_line(made), allow_nan=False))
    assert faults(line) == []
    assert whole.is_valid(line)
    summary = summarise([made], 57, ["q2.b"], ["minimal"], ["float32"])
    assert faults(json.loads(json.dumps(end_line(summary, 1.0)))) == []


def without(line, name):
    return {key: value for key, value in line.items() if key != name}


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ({"kind": "other"}, "kind is 'other', expected one of run, claim, verdict, end"),
        ([], "kind is None"),
        (run(schema=2), "run.schema"),
        (run(seed=-1), "run.seed"),
        (run(more=1), "'more' was unexpected"),
        (run(environment={"a": {"b": {"c": 1}}}), "run.environment.a"),
        (without(run(), "isolation"), "'isolation' is a required property"),
        (claim("a", rung="cellar"), "claim.rung"),
        (claim("a", level="must"), "claim.level"),
        (claim("a", title="A"), "claim.title"),
        (claim("a", title={"en": "A"}), "'zh' is a required property"),
        (claim(""), "claim.id"),
        (claim("a", tensors={"z": "batch"}), "claim.tensors.z"),
        (verdict("a", given="passed"), "verdict.verdict"),
        (verdict("a", margin=-1), "verdict.margin"),
        (verdict("a", margin="inf"), "verdict.margin"),
        (verdict("a", where={"file": "x", "node": "y"}), "verdict.where"),
        (verdict("a", where={**PLACE, "line": 0}), "verdict.where"),
        (verdict("a", diagnosis=[{**SCALE, "more": 1}]), "verdict.diagnosis.0"),
        (without(verdict("a"), "case"), "'case' is a required property"),
        (failed("a", evidence={**failed("a")["evidence"], "index": {"head": -1}}), "verdict.evidence"),
        (failed("a", evidence={**failed("a")["evidence"], "arrays": {"got": []}}), "verdict.evidence"),
        (end(True, counts={"passed": 1}), "end.counts"),
        (end(True, counts={"pass": -1}), "end.counts.pass"),
        (end(True, first_broken={"rung": "operation"}), "end.first_broken"),
        (end("yes"), "end.conforms"),
    ],
)
def test_a_line_that_does_not_fit_is_refused_with_its_place(whole, line, fault):
    assert fault in "\n".join(faults(line))
    assert not whole.is_valid(line)


def test_faults_of_a_file_have_the_number_of_the_line():
    text = "\n".join([json.dumps(run()), "", json.dumps(end("yes")), "{", ""])
    assert [fault.split(":")[0] for fault in faults_of_file(text)] == ["line 3", "line 4"]


def test_every_reference_of_the_schema_leads_somewhere(whole):
    named = set(whole.schema["$defs"])

    def references(value):
        if isinstance(value, dict):
            yield from ([value["$ref"]] if isinstance(value.get("$ref"), str) else [])
            for item in value.values():
                yield from references(item)
        elif isinstance(value, list):
            for item in value:
                yield from references(item)

    assert {reference.removeprefix("#/$defs/") for reference in references(whole.schema)} <= named


def test_lines_with_all_that_a_line_may_have_fit():
    from reports_helpers import layered

    for line in layered():
        assert faults(line) == []
