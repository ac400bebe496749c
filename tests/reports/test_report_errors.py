"""What raises, crashes or hangs: told once, named, placed, and never drawn as a wrong tensor."""

import csv
import io
import json

import pytest
from reports_helpers import FLOW, claim, end, failed, results, run, text, verdict

from conformance.judging.observe import failure
from conformance.reports import grades, matrix
from conformance.reports.dataflow import drawing
from conformance.reports.entries import entry_of, groups
from conformance.reports.formats import render
from conformance.reports.reading import report_of
from conformance.reports.words import pick
from conformance.session.outcomes import Crashed, Raised, TimedOut, Unusable

LINE = {"file": "/home/ann/typo.py", "line": 28, "text": "w = sofmax(s)"}
KINDS = {
    "raised": (
        "error",
        text("it raised NameError: name 'sofmax' is not defined (/home/ann/typo.py, line 28)",
             "抛出异常 NameError：name 'sofmax' is not defined（/home/ann/typo.py，第 28 行）"),
        LINE, "NameError, typo.py:28",
    ),
    "returned": (
        "error", text("`attention` returned None, expected output, a numpy array of floats", "`attention` 返回的是 None，应为 output"),
        None, "q006.attention",
    ),
    "crashed": (
        "error", text("`attention` ended its process: killed by signal SIGSEGV", "`attention` 使进程终止：被信号 SIGSEGV 终止"),
        None, "q006.attention",
    ),
    "hung": ("timeout", text("`attention` gave no answer within 3 s", "`attention` 在 3 秒内没有回答"), None, "q006.attention"),
}  # fmt: skip
AGAIN = {
    "crashed": "`attention` ended its process: not tried again after 2 calls of attention that crashed",
    "hung": "`attention` gave no answer within 3 s; not tried again after 2 calls of attention that timed out",
    "raised": "it raised NameError: name 'sofmax' of size 7 (/home/ann/typo.py, line 28)",
}


def broken_by(kind, claims=40):
    """Everything that calls `attention` shows its error; one claim is wrong by itself."""
    verdict_, summary, where, _ = KINDS[kind]
    lines = [run(flow=FLOW)]
    for n in range(claims):
        name = f"q006.c{n}" if n else "q006.attention"
        said = text(AGAIN[kind]) if n > 1 and kind in AGAIN else summary
        lines += [
            claim(
                name,
                equation="z = dot(weights, values, over=key)" if n % 2 else None,
                tensors={"x": ["batch"], "z": ["batch"]},
            )
        ]
        lines += [verdict(name, given=verdict_, summary=said, where=where)]
    lines += [
        claim("q007.own"),
        failed("q007.own", evidence=None),
        verdict("q007.own", given=verdict_, summary=summary, where=where),
    ]
    return [*lines, end(False, {"rung": "operation", "claim": "q006.attention", "tensor": ""})]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_is_told_once_and_counted(kind):
    report = report_of(results(broken_by(kind)))
    assert [p.claim.id for p in report.problems if p.claim.id not in report.follows] == [
        "q006.attention",
        "q007.own",
    ]
    assert set(report.follows.values()) == {KINDS[kind][3]}
    assert report.alike.en == "41 of 41 broken claims show this error"
    for form in ("html", "markdown"):
        assert "41 of 41 broken claims show this error" in render(results(broken_by(kind)), form)
        assert "41 条出错断言中有 41 条都是这个错误" in render(results(broken_by(kind)), form, "zh")


def test_errors_of_different_lines_functions_or_kinds_stay_apart():
    names = [
        text("it raised NameError: name 'a' is not defined (/m.py, line 1)"),
        text("it raised NameError: name 'a' is not defined (/m.py, line 2)"),
        text("it raised ValueError: name 'a' is not defined (/m.py, line 1)"),
        text("`attention` gave no answer within 3 s"),
        text("`rope` gave no answer within 3 s"),
        text("`attention` returned None, expected output"),
        text("`attention` returned a list, expected output"),
        text("the model ended its process: killed by signal SIGSEGV"),
    ]
    lines = [run()]
    for n, summary in enumerate(names):
        lines += [claim(f"q00{n}.c"), verdict(f"q00{n}.c", given="error", summary=summary)]
    report = report_of(results([*lines, end(False)]))
    assert report.follows == {}
    assert report.alike.en == ""


def test_a_wrong_number_is_never_an_error_again():
    lines = [run(), claim("a"), verdict("a", given="fail", summary=KINDS["raised"][1])]
    lines += [claim("b"), verdict("b", given="fail", summary=KINDS["raised"][1]), end(False)]
    assert report_of(results(lines)).follows == {}


@pytest.mark.parametrize("kind", KINDS)
def test_what_raised_has_no_wrong_tensor(kind):
    """The input of a layer is not wrong because something after it raised; no tensor was seen."""
    lines = [line for line in broken_by(kind) if line.get("claim", line.get("id")) != "q007.own"]
    assert drawing(report_of(results(lines)), FLOW) is None
    lines[-1:-1] = [claim("q005.q", equation="q = dot(x, w_q, over=model)"), verdict("q005.q")]
    drawn = drawing(report_of(results(lines)), FLOW)
    states = {box.tensor: box.state for box in drawn.boxes}
    assert (states["q"], states["z"]) == ("good", "silent")
    assert not any(box.state == "bad" or box.first for box in drawn.boxes)


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_many_groups_and_names_errors(kind, lang):
    made = [entry_of(results(broken_by(kind)), name)[0] for name in ("ann.py", "ben.py")]
    other = [
        {**line, "where": {**LINE, "line": 7}} if line.get("where") else line for line in broken_by(kind)
    ]
    made.append(entry_of(results(other), "cleo.py")[0])
    (group,) = groups(made, {})
    assert [entry.name for entry in group.entries] == ["ann.py", "ben.py", "cleo.py"]
    said = pick(group.says, lang)
    assert "/home" not in said
    assert said in pick(report_of(results(broken_by(kind))).first.worst.summary, lang)
    row = next(csv.DictReader(io.StringIO(grades.render(made, lang))))
    assert row["reason"] == said
    assert (row["file"], row["line"]) == ((LINE["file"], "28") if KINDS[kind][2] else ("", ""))
    page = matrix.render_entries(made, entry_of(results(other))[1], lang)
    assert "no known mistake" not in page
    assert ("typo.py:28" in page) == (kind == "raised")


OUTCOMES = {
    "returned": Unusable("output, a numpy array of floats", "None"),
    "crashed": Crashed("killed by signal SIGSEGV"),
    "hung": TimedOut(3.0),
}


@pytest.mark.parametrize("kind", OUTCOMES)
def test_an_error_without_a_line_names_what_was_called(kind):
    for signature, called, zh in (
        ("attention(q, k, v, mask=None)", "`attention`", "`attention` "),
        ("parameter_shapes(config)", "`parameter_shapes`", "`parameter_shapes` "),
        ("Model(config, params).forward(tokens)", "the model", "模型"),
    ):
        judged = failure(OUTCOMES[kind], signature)
        assert judged.summary.en.startswith(called)
        assert judged.summary.zh.startswith(zh)


def test_an_exception_without_words_has_no_colon():
    raised = Raised("AssertionError", "", "/home/ann/m.py", 28, "assert q.shape[1] == 8")
    summary = failure(raised, "attention(q)").summary
    assert summary.en == "it raised AssertionError (/home/ann/m.py, line 28)"
    assert summary.zh == "抛出异常 AssertionError（/home/ann/m.py，第 28 行）"


def test_a_row_that_offers_nothing_names_more_than_one_thing():
    names = ["Model", "attention", "block", "softmax", "rope"]
    lines = [run()]
    for name in names:
        lines += [
            claim(name),
            verdict(name, given="unsupported", summary=text(f"the target defines no `{name}`")),
        ]
    entry, _ = entry_of(results([*lines, end(False)]))
    assert entry.reason.en.startswith(
        "it offers nothing that can be graded: the target defines no `Model`; the target"
    )
    assert entry.reason.en.endswith(", +2")
    one = [run(), *lines[1:3], end(False)]
    assert entry_of(results(one))[0].reason.en == "the target defines no `Model`"


def test_what_only_one_has_stands_behind_what_several_share():
    lines = broken_by("raised")
    known = entry_of(results(lines))[1]
    alone = [entry_of(results(lines), "ann.py")[0]]
    folded = "more, of one submission each"
    assert folded not in matrix.render_entries(alone, known)
    both = [*alone, *alone, entry_of(results(broken_by("hung")), "ben.py")[0]]
    assert f"1 {folded}" in matrix.render_entries(both, known)


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_head_of_what_gradescope_shows_says_what_was_seen(kind, lang):
    output = json.loads(render(results(broken_by(kind)), "gradescope", lang))["output"]
    report = report_of(results(broken_by(kind)))
    assert pick(report.first.worst.summary, lang) in output
    assert pick(report.alike, lang) in output
