"""Formats that other programs read: JUnit, CTRF, Gradescope, badges; the difference of two runs; withheld answers."""

import html.parser
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import cmarkgfm
import jsonschema
import junitparser
import pytest
from click.testing import CliRunner
from cmarkgfm.cmark import Options
from reports_helpers import (
    PLACE,
    SCALE,
    claim,
    end,
    failed,
    failing,
    hostile,
    layered,
    passing,
    results,
    run,
    save,
    text,
    verdict,
)

from conformance import cli
from conformance.language.errors import PackError
from conformance.reports import badge, ctrf, difference, gradescope, junit
from conformance.reports.formats import FORMATS, render
from conformance.reports.reveal import revealed
from conformance.reports.rubric import load_rubric


def invoke(*args):
    return CliRunner().invoke(cli.main, ["report", *map(str, args)], prog_name="conformance")


# -- JUnit ---------------------------------------------------------------------------------------------


def test_junit_keeps_failure_and_error_apart_and_counts_them():
    root = ET.fromstring(junit.render(results(failing())))
    assert root.tag == "testsuites"
    counts = {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "9", "failures": "3", "errors": "1", "skipped": "4"}
    assert [suite.get("name") for suite in root] == ["operation", "layer", "model"]
    for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        assert len(root.findall(f".//testcase/{tag}")) == int(counts[name])
    for suite in root:
        assert int(suite.get("tests")) == len(suite.findall("testcase"))
    names = [case.get("name") for case in root.iter("testcase")]
    assert len(names) == len(set(names)) == 9


def test_junit_says_claim_statement_mistake_and_place():
    root = ET.fromstring(junit.render(results(failing())))
    case = next(
        c for c in root.iter("testcase") if c.get("name") == "q006.attention [causal, minimal, float32]"
    )
    properties = [(p.get("name"), p.get("value")) for p in case.find("properties")]
    assert ("claim", "q006.attention") in properties
    assert [value for name, value in properties if name == "statement"] == ["Q6.4", "Q6.10"]
    assert ("mistake", "scale-by-model-width") in properties
    assert (case.get("file"), case.get("line"), case.get("classname")) == (
        "my_model.py",
        "41",
        "operation.Q006",
    )
    failure = case.find("failure")
    for part in (
        "expected 0.75",
        "divide by √Dh",
        "my_model.py:41",
        "z = dot(weights",
        "print(output[1, 2, 3])",
    ):
        assert part in failure.text


@pytest.mark.parametrize(
    ("lines", "errors"),
    [
        (passing(), 0),
        (failing()[:-1], 2),  # one of its own, and that it has no end
        ([run(), end(False)], 1),
        ([run(), claim("a"), verdict("a", given="unsupported"), end(False)], 1),
        ([run(), claim("a"), verdict("a"), end(False, required_not_graded=["b"])], 1),
        ([run(), claim("a"), verdict("a", given="from the future"), end(True)], 1),
    ],
)
def test_a_run_that_is_no_success_has_no_junit_without_an_error(lines, errors):
    root = ET.fromstring(junit.render(results(lines)))
    assert root.get("errors") == str(errors)
    assert len(root.findall(".//error")) == errors


EVERY = [
    passing(),
    failing(),
    failing()[:-1],
    hostile(),
    layered(),
    [run()],
    [{"kind": "run"}, {"kind": "verdict"}],
]


@pytest.mark.parametrize("lines", EVERY)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_junit_is_read_by_who_reads_junit(lines, lang, tmp_path):
    path = tmp_path / "junit.xml"
    path.write_text(junit.render(results(lines), lang), encoding="utf-8")
    document = junitparser.JUnitXml.fromfile(str(path))
    said = (document.tests, document.failures, document.errors, document.skipped, round(document.time, 3))
    cases = [case for suite in document for case in suite]
    kinds = [type(result).__name__ for case in cases for result in case.result]
    # What is said of the whole is what there is.
    document.update_statistics()
    assert said == (
        document.tests,
        document.failures,
        document.errors,
        document.skipped,
        round(document.time, 3),
    )
    assert said[:4] == (len(cases), kinds.count("Failure"), kinds.count("Error"), kinds.count("Skipped"))
    assert all(case.name and case.classname for case in cases)
    names = [(case.classname, case.name) for case in cases]
    assert len(set(names)) == len(names)


def test_junit_has_each_verdict_as_a_reader_names_it():
    document = junitparser.JUnitXml.fromstring(junit.render(results(failing())))
    found = {case.name: case for suite in document for case in suite}
    broken = found["q006.attention [causal, minimal, float32]"]
    (failure,) = broken.result
    assert (type(failure), failure.type) == (junitparser.Failure, "fail")
    assert {(p.name, p.value) for p in broken.child(junitparser.Properties)} >= {
        ("claim", "q006.attention"),
        ("statement", "Q6.4"),
        ("statement", "Q6.10"),
    }
    (raised,) = found["q005.residual [plain, minimal, float32]"].result
    assert (type(raised), raised.message) == (
        junitparser.Error,
        "it raised ValueError: shapes (3,4) and (5,4)",
    )
    assert found["q005.rope [plain, minimal, float32]"].is_skipped


def test_hostile_text_is_xml():
    root = ET.fromstring(junit.render(results(hostile())))
    assert "<script>alert(1)</script>" in root.find(".//failure").text


# -- CTRF ----------------------------------------------------------------------------------------------

CTRF = json.loads((Path(__file__).parent / "formats" / "ctrf-schema-0.0.json").read_text(encoding="utf-8"))
"""The format's own schema."""


@pytest.mark.parametrize(
    "lines",
    [
        passing(), failing(), failing()[:-1], hostile(), hostile("x" * 10**6), layered(), [run()], [{"kind": "run"}, {"kind": "verdict"}],
    ],
)  # fmt: skip
def test_ctrf_is_what_its_format_asks_for(lines):
    document = json.loads(ctrf.render(results(lines)))
    jsonschema.validate(document, CTRF, format_checker=jsonschema.FormatChecker())
    summary, tests = document["results"]["summary"], document["results"]["tests"]
    assert summary["tests"] == len(tests)
    assert sum(summary[name] for name in ("passed", "failed", "skipped", "pending", "other")) == len(tests)


def test_ctrf_counts_and_tells():
    document = json.loads(ctrf.render(results(failing())))["results"]
    summary = document["summary"]
    assert (summary["passed"], summary["failed"], summary["skipped"], summary["suites"]) == (1, 4, 4, 3)
    test = next(t for t in document["tests"] if t["name"] == "q006.attention [causal, minimal, float32]")
    assert (test["status"], test["line"], test["duration"]) == ("failed", 41, 1)
    assert test["labels"]["statements"] == ["Q6.4", "Q6.10"]
    assert test["labels"]["mistakes"] == ["scale-by-model-width"]


# -- Gradescope ----------------------------------------------------------------------------------------


def scores(document):
    return {test["name"].split()[0]: (test.get("score"), test.get("max_score")) for test in document["tests"]}


def test_gradescope_shares_a_hundred_points_by_default():
    document = json.loads(gradescope.render(results(failing())))
    tests = document["tests"]
    assert document["score"] == 0
    assert len(tests) == 6
    assert {test["status"] for test in tests} == {"failed"}
    assert "scale-by-model-width" in tests[0]["output"]
    assert document["output"].startswith(
        "does not conform: 4 of 9 verdicts broken\ncause: The scores are divided"
    )
    assert json.loads(gradescope.render(results(passing())))["score"] == 100


RUBRIC = """
criteria:
  - name: {en: Operations, zh: 算子}
    select: "rung:operation"
    points: 60
    credit: verdicts
    unsupported: left out
  - {name: Layer, select: ["rung:layer", "!q9*"], points: 10, credit: all, visibility: hidden}
  - {name: Rest, select: "level:MUST", points: 30}
visibility:
  - {select: "q005.c*", visibility: after_due_date}
"""


def test_gradescope_follows_a_rubric(tmp_path):
    (tmp_path / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    save(tmp_path, failing())
    out = tmp_path / "results.json"
    done = invoke(tmp_path, "--to", "gradescope", "--rubric", tmp_path / "rubric.yaml", "-o", out)
    assert (done.exit_code, done.output) == (0, "")
    document = json.loads(out.read_text(encoding="utf-8"))
    # One of three verdicts of one of two claims; nothing for the rest.
    assert document["score"] == 10
    assert document["extra_data"] == {"max_score": 100}
    found = scores(document)
    assert found["q006.attention"] == (10, 30)
    assert found["q007.weights"] == (0, 30)
    assert "q005.rope" not in found
    assert found["Layer"] == (0, 10)
    assert found["q005.residual"] == (None, None)
    assert found["q005.causal"] == (0, 15)
    sights = {test["name"].split()[0]: test["visibility"] for test in document["tests"]}
    assert (sights["Layer"], sights["q005.causal"], sights["q005.logits"]) == (
        "hidden",
        "after_due_date",
        "visible",
    )


@pytest.mark.parametrize(
    ("rubric", "message"),
    [
        ("criteria: []", "a rubric needs criteria"),
        ("criteria:\n  - {name: a, select: x, points: -1}", "rubric.yaml:2: -1 points"),
        ("criteria:\n  - {name: a, select: x, point: 1}", "unknown key 'point'"),
        ("criteria:\n  - {name: a, select: 'rank:x', points: 1}", "'rank:' is not known"),
        ("criteria:\n  - {name: a, select: x, points: 1, visibility: seen}", "'seen' is not one of visible"),
        ("visibility: []", "'criteria' is missing"),
    ],
)  # fmt: skip
def test_a_faulty_rubric_is_said_with_its_line(tmp_path, rubric, message):
    path = tmp_path / "rubric.yaml"
    path.write_text(rubric)
    with pytest.raises(PackError) as error:
        load_rubric(path)
    assert message in str(error.value)
    done = invoke(save(tmp_path, passing()), "--to", "gradescope", "--rubric", path)
    assert (done.exit_code, done.stdout) == (2, "")


DOCUMENTED = {"score", "output", "output_format", "test_output_format", "test_name_format", "visibility", "stdout_visibility", "extra_data", "tests"}  # fmt: skip
OF_A_TEST = {"score", "max_score", "status", "name", "number", "output", "tags", "visibility"}


@pytest.mark.parametrize("lines", [passing(), failing(), failing()[:-1], hostile(), [run()]])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_gradescope_gets_what_its_documentation_names(lines, lang):
    document = json.loads(gradescope.render(results(lines), lang))
    assert set(document) <= DOCUMENTED
    assert isinstance(document["score"], int | float)
    for test in document["tests"]:
        assert set(test) <= OF_A_TEST
        assert test["status"] in ("passed", "failed")
        assert 0 <= test.get("score", 0) <= test.get("max_score", 0)
        assert test["visibility"] in ("visible", "hidden", "after_due_date", "after_published")


def test_gradescope_is_written_also_after_a_crash(tmp_path):
    out = tmp_path / "results.json"
    done = invoke(tmp_path / "nowhere", "--to", "gradescope", "-o", out)
    assert done.exit_code == 2
    document = json.loads(out.read_text())
    assert (document["score"], document["tests"]) == (0, [])
    assert "could not be graded" in document["output"]
    save(tmp_path, failing()[:3])
    assert invoke(tmp_path, "--to", "gradescope", "-o", out).exit_code == 0
    assert "interrupted" in json.loads(out.read_text())["output"]


# -- badges --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "message", "color"),
    [
        (passing(), "1 of 57", "brightgreen"),
        (failing(), "3 broken", "red"),
        (failing()[:-1], "interrupted", "lightgrey"),
        ([run(), end(False)], "nothing graded", "lightgrey"),
    ],
)
def test_a_badge_is_an_endpoint_or_a_picture(tmp_path, lines, message, color):
    assert json.loads(badge.render(results(lines))) == {
        "schemaVersion": 1, "label": "conformance", "message": message, "color": color,
    }  # fmt: skip
    picture = tmp_path / "badge.svg"
    assert invoke(save(tmp_path, lines), "--to", "badge", "-o", picture).exit_code == 0
    root = ET.fromstring(picture.read_text())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")] == ["conformance", message]


ENDPOINT = {
    "type": "object",
    "required": ["schemaVersion", "label", "message"],
    "additionalProperties": False,
    "properties": {
        "schemaVersion": {"const": 1},
        "label": {"type": "string"},
        "message": {"type": "string", "minLength": 1, "maxLength": 60},
        "color": {"enum": ["brightgreen", "green", "yellow", "orange", "red", "lightgrey", "blue"]},
    },
}
"""What https://shields.io/badges/endpoint-badge asks of an endpoint, and the colours that it names."""


@pytest.mark.parametrize("lines", EVERY)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_an_endpoint_is_what_shields_asks_for(lines, lang):
    jsonschema.validate(json.loads(badge.render(results(lines), lang)), ENDPOINT)


# -- GitHub's Markdown ---------------------------------------------------------------------------------

TAGS = {
    "h3", "h4", "ul", "li", "strong", "code", "pre", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "b",
    "blockquote", "p", "sub",
}  # fmt: skip


class Seen(html.parser.HTMLParser):
    """Tags, whether each is closed where it should be, and the text outside of code."""

    def __init__(self, source):
        super().__init__()
        self.open, self.tags, self.text, self.ill = [], set(), [], []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.ill += [name for name, _ in attrs if name not in ("align", "class", "lang")]
        self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.ill.append(f"</{tag}>")

    def handle_data(self, data):
        if "code" not in self.open:
            self.text.append(data)


@pytest.mark.parametrize("lines", EVERY)
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("kind", ["markdown", "diff"])
def test_markdown_is_what_github_makes_of_it(lines, lang, kind):
    source = (
        render(results(lines), "markdown", lang)
        if kind == "markdown"
        else difference.render(results(passing()), results(lines), lang)
    )
    page = cmarkgfm.github_flavored_markdown_to_html(source, Options.CMARK_OPT_UNSAFE)
    seen = Seen(page)
    # GitHub links what looks like an address: nothing of a stranger's may.
    assert seen.tags <= TAGS, seen.tags - TAGS
    assert (seen.ill, seen.open) == ([], [])
    assert len(source) <= 65_536
    if kind == "markdown" and len(lines) > 3:
        assert {"table", "details", "summary"} <= seen.tags or lines == passing()
    text = "".join(seen.text)
    assert not [trap for trap in ("@everyone", "GH-2", "://", "www.") if trap in text]


# -- two runs ------------------------------------------------------------------------------------------


def test_a_difference_tells_what_broke_and_what_was_mended(tmp_path):
    before = [
        run(),
        *(claim(n) for n in "abcd"),
        verdict("a"),
        failed("b"),
        failed("c"),
        failed("d"),
        verdict("e"),
        end(False),
    ]
    after = [run(seed=1), *(claim(n) for n in "abcd"), failed("a", diagnosis=[SCALE]), verdict("b"), failed("c"), verdict("e"), end(False)]  # fmt: skip
    found = difference.render(results(before), results(after))
    assert found.startswith("### 1 broke, 1 mended, 1 still broken, 1 as before\n")
    assert "- seed differs: 0 before, 1 after" in found
    assert "#### Broke (1)\n\n- `a` plain, minimal, float32: pass → fail (`scale-by-model-width`)" in found
    assert "#### Mended (1)\n\n- `b` plain, minimal, float32: fail → pass" in found
    # What is not graded any more was not mended.
    assert "#### Changed otherwise (1)\n\n- `d` plain, minimal, float32: fail → absent" in found
    a, b = save(tmp_path / "a", before), save(tmp_path / "b", after)
    done = invoke(a, b, "--to", "diff")
    assert (done.exit_code, done.stdout) == (0, found)
    assert invoke(a, "--to", "diff").exit_code == 2
    assert "新出错 1" in invoke(a, b, "--to", "diff", "--lang", "zh").stdout


# -- withheld answers ----------------------------------------------------------------------------------

SECRET = 0.7654321


def secret_run():
    seen = {
        "tensor": "z", "index": {"head": 1, "query": 2}, "got": 0.125, "expected": SECRET, "tolerance": 1e-6,
        "arrays": {"axes": ["dv"], "fixed": {}, "got": [0.125], "expected": [SECRET]},
    }  # fmt: skip
    broken = failed(
        "q006.attention", summary=text(f"`z` is 0.125, expected {SECRET}"), evidence=seen, diagnosis=[SCALE], where=PLACE,
        reproduce=f"# expected {SECRET}",
    )  # fmt: skip
    first = {"rung": "operation", "claim": "q006.attention", "tensor": "z"}
    return [run(), claim("q006.attention", equation="z = dot(weights, values)"), broken, end(False, first)]


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("badge", "matrix")])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_hints_name_the_mistake_and_the_place_and_no_number(name, lang):
    read = results(secret_run())
    if name == "gradescope":
        assert str(SECRET) in render(read, name, lang)
    hint = render(revealed(read, "hint"), name, lang)
    assert str(SECRET) not in hint
    assert "0.125" not in hint
    assert "scale-by-model-width" in hint
    if name != "csv":
        assert "head 1, query 2" in hint
    none = render(revealed(read, "none"), name, lang)
    for part in (str(SECRET), "0.125", "scale-by-model-width", "np.sqrt", "head 1, query 2", "dot(weights"):
        assert part not in none
    assert "q006.attention" in none


def test_a_report_takes_the_option(tmp_path):
    save(tmp_path, secret_run())
    assert str(SECRET) in invoke(tmp_path, "--to", "json").stdout
    assert str(SECRET) not in invoke(tmp_path, "--to", "json", "--reveal", "hint").stdout


# -- many runs -----------------------------------------------------------------------------------------


def test_a_matrix_of_several_runs_groups_those_that_share_a_mistake(tmp_path):
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder, lines in zip(folders, (failing(), failing(), passing()), strict=True):
        save(folder, lines)
    (folders[0] / "report.html").write_text("x")
    (tmp_path / "d").mkdir()
    out = tmp_path / "matrix.html"
    done = invoke(*folders, tmp_path / "d", "--to", "matrix", "-o", out)
    assert done.exit_code == 0
    assert "d/results.jsonl cannot be read" in done.stderr
    page = out.read_text(encoding="utf-8")
    assert "4 submissions" in page
    assert '<b class="v fail">2</b>' in page
    assert page.count('<span class="id">scale-by-model-width</span>') == 1
    assert 'href="a/report.html"' in page
    assert 'href="b/report.html"' not in page


def test_results_of_several_packs_are_said_to_be():
    from conformance.reports import matrix

    page = matrix.render([results(passing()), results([run(pack="other"), *passing()[1:]])])
    assert "Results of several packs: forward-pass 0.1.0, other 0.1.0" in page
    assert "several packs" not in matrix.render([results(passing())] * 2)


def test_every_outcome_of_a_table_is_a_word():
    from conformance.reports import matrix

    page = matrix.render(
        [results(failing()[:-1]), results([run()]), results([run(), end(False)]), results(passing())]
    )
    assert "interrupted" in page
    assert "中断" in page
    assert not re.findall(r"\{\w+\}", re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL))
