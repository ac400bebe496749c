import io
import re
import sys

import pytest
from reports_helpers import (
    HOSTILE,
    PLACE,
    SCALE,
    claim,
    end,
    failed,
    failing,
    hostile,
    passing,
    results,
    run,
    text,
    verdict,
)
from rich.cells import cell_len
from rich.text import Text as Styled

from conformance.reports.markdown import render
from conformance.reports.terminal import Progress, show
from conformance.reports.wrap import breaks, wrap


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")


def shown(lines, lang="en", stream=None, **more):
    stream = io.StringIO() if stream is None else stream
    show(results(lines), lang, stream, **more)
    return stream.getvalue()


def test_the_verdict_then_cause_place_and_change_stand_first():
    lines = shown(failing()).split("\n")
    assert lines[0] == "does not conform: 4 of 9 verdicts broken"
    assert lines[2] == "  cause   The scores are divided by √d_model; divide by √Dh."
    assert lines[3] == "          scale-by-model-width; explains 2 of 3 broken claims"
    assert lines[4] == "  place   my_model.py:41   s = q @ k.T / np.sqrt(d_model) (variable `s`)"
    assert lines[5] == "  change  z = dot(weights, values, over=key)"


def test_the_ladder_has_counts_and_names_the_first_broken_rung():
    ladder = re.findall(r"^(?:operation|layer|model|decode|graph) .*$", shown(failing()), re.MULTILINE)
    assert [row.split() for row in ladder] == [
        ["operation", "1", "3", "·", "·", "1", "·", "←", "first", "broken"],
        ["layer", "·", "·", "1", "·", "·", "·"],
        ["model", "·", "·", "·", "·", "3", "·"],
        ["decode", "·", "·", "·", "·", "·", "·", "not", "graded"],
        ["graph", "·", "·", "·", "·", "·", "·", "not", "graded"],
    ]


def test_a_broken_claim_says_all_that_is_needed_to_mend_it():
    out = shown(failing())
    first = out[out.index("1. fail") : out.index("2. error")]
    for part in (
        "q006.attention  MUST, operation",
        "Title of q006.attention",
        "The output is the weighted mix of the values. (Q6.4, Q6.10)",
        "z = dot(weights, values, over=key)",
        "`z` at head 1, query 2, key 3",
        "got 0.125, expected 0.75",
        "tolerance 1.5e-06, 130,000 tolerances off",
        "on causal, minimal, float32; broken in 2 of 3 verdicts",
        "mistake    scale-by-model-width",
        "where      my_model.py:41",
        "\n     import numpy as np\n     print(output[1, 2, 3])\n",
    ):
        assert part in first
    assert "it raised ValueError: shapes (3,4) and (5,4)" in out


def test_claims_of_one_cause_read_as_one_problem():
    lines = [
        run(),
        *(line for i in range(100) for line in (claim(f"c{i}"), failed(f"c{i}", diagnosis=[SCALE]))),
        end(False),
    ]
    out = shown(lines)
    assert "1. fail  c0" in out
    assert "2. fail" not in out
    assert "These follow from scale-by-model-width (99)\n  fail     c1   Title of c1\n" in out
    assert "… and 89 more in report.html" in out
    assert out.count("\n") < 50


def test_what_was_not_graded_and_what_was_printed():
    out = shown(failing())
    assert "Not graded, and why\n  2 claims  the target defines no `Model`  (model)\n" in out
    assert "Printed by the submission\n  loading\n  weights of 3 layers\n" in out


def test_chinese_says_the_same():
    out = shown(failing(), "zh")
    assert out.startswith("不符合：9 个判定中有 4 个未通过\n")
    for part in (
        "原因    分数除以了 √d_model；应除以 √Dh。",
        "位置    my_model.py:41",
        "应改为  z = dot(weights, values, over=key)",
        "算子       1     3     ·     ·       1     ·  ← 最先出错",
        "`z` 位于 head 1, query 2, key 3",
        "得到 0.125，应为 0.75",
        "该实现没有定义 `Model`",
    ):
        assert part in out


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("width", [48, 80, 200])
def test_only_what_is_to_be_copied_is_wider_than_the_window(monkeypatch, lang, width):
    monkeypatch.setenv("COLUMNS", str(width))
    lines = failing()
    lines[1]["says"] = text(
        "Many words that go on. " * 12, "权重之和为一，softmax 沿键轴进行，不得沿头轴。" * 6
    )
    for line in shown(lines, lang).split("\n"):
        if not line.startswith("     import") and "←" not in line:
            assert cell_len(line) <= min(width, 100), line
        assert line == line.rstrip()


def test_no_terminal_no_control_codes():
    for out in (shown(failing()), shown(hostile()), shown(hostile(), "zh")):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", out)


def test_a_terminal_gets_colours_unless_it_does_not_want_them(monkeypatch):
    assert re.search(r"\x1b\[[0-9;]*31m", shown(failing(), stream=Terminal()))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*[34]\d", shown(failing(), stream=Terminal()))
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in shown(failing(), stream=Terminal())


def test_hostile_text_is_spelled_out_and_bounded():
    out = shown(hostile("A" * 400_000), stream=Terminal())
    assert len(out) < 60_000
    assert "\\x1b]0;owned\\x07\\x1b[2J" in out
    assert "\\u202etxt.exe" in out
    assert "<script>" in out  # text, on a terminal
    codes = re.findall(r"\x1b(?!\[[0-9;]*m)", out)
    assert codes == []
    huge = [run(printed="\x1b" * 10_000_000), failed("a", summary=text("x" * 10_000_000)), end(False)]
    assert len(shown(huge)) < 10_000


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "gbk", "utf-8", "utf-16"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_encoding_gets_something_it_can_show(encoding, lang):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    show(results(failing()), lang, stream)
    stream.flush()
    out = raw.getvalue().decode(encoding)
    if encoding in ("gbk", "utf-8", "utf-16"):
        assert ("不符合" in out) == (lang == "zh")
    else:
        assert "does not conform" in out
        assert ("cannot show Chinese" in out) == (lang == "zh")
    if encoding == "ascii":
        assert "divided by sqrt d_model" in out
        assert "<- first broken" in out


def test_many_claims_are_capped():
    lines = [run(), *(line for i in range(40) for line in (claim(f"c{i}"), failed(f"c{i}"))), end(False)]
    out = shown(lines, page="there/report.html")
    assert "10. fail" in out
    assert "11. fail" not in out
    assert "… and 30 more in there/report.html" in out


def test_quiet_is_the_verdict_alone():
    assert shown(failing(), quiet=True) == "does not conform: 4 of 9 verdicts broken\n"


def test_a_passing_run_is_short():
    out = shown(passing())
    assert out.startswith("conforms in all it offers")
    assert out.count("\n") == 8


def test_an_interrupted_run_says_so():
    out = shown(failing()[:-1])
    assert out.startswith("interrupted: 9 verdicts so far, 4 of them broken")
    assert "no end line" in out
    assert "1. fail  q006.attention" in out


def test_waivers_have_a_reason_and_a_day():
    waiver = {
        "claim": "q006.*",
        "reason": "issue 7",
        "expires": "2027-01-31",
        "state": "needless",
        "verdicts": 0,
    }
    out = shown([run(), verdict("a", given="waived"), end(True, waivers=[waiver])])
    assert "q006.*: issue 7 (until 2027-01-31, no longer needed: it passes)" in out


def test_a_node_of_a_graph_is_a_place():
    lines = [
        run(),
        claim("a", "graph"),
        failed("a", "graph", where={"node": "Div_3", "op_type": "Div"}),
        end(False),
    ]
    assert "place   node Div_3 (Div)" in shown(lines)


def test_required_and_not_graded_is_said():
    assert "required, but not graded: q006.x" in shown([run(), end(False, required_not_graded=["q006.x"])])


# -- wrapping ------------------------------------------------------------------------------------------


def parts(line: str, width: int) -> list[str]:
    return wrap(Styled(line), width).plain.split("\n")


def test_lines_end_after_words_beside_wide_characters_and_before_no_comma():
    assert parts("one two three", 8) == ["one two", "three"]
    assert parts("abcdefghij", 4) == ["abcd", "efgh", "ij"]
    assert parts("输出是加权混合", 6) == ["输出是", "加权混", "合"]
    assert parts("输出是，加权", 6) == ["输出", "是，加", "权"]
    assert parts("沿 softmax 轴", 6) == ["沿", "softma", "x 轴"]
    assert parts("a\n\nb", 10) == ["a", "", "b"]
    assert breaks("short", 5) == []


@pytest.mark.parametrize("width", range(2, 30))
def test_nothing_is_lost_and_nothing_is_too_wide(width):
    line = "q·k 除以 √Dh，再沿键轴 softmax；the output (输出) 是 weighted mix。" * 2
    lines = parts(line, width)
    assert "".join(lines).replace(" ", "") == line.replace(" ", "")
    assert all(cell_len(part) <= width for part in lines)


# -- progress ------------------------------------------------------------------------------------------


def ran(stream, **more) -> str:
    progress = Progress(stream=stream, **more)
    with progress:
        progress.start({"model": 1, "operation": 2})
        for line in (*failing(), {"kind": "verdict", "rung": HOSTILE}, {"kind": "other"}):
            progress.advance(line)
    progress.stop()
    return stream.getvalue()


def test_progress_is_for_a_terminal_only(monkeypatch):
    assert ran(io.StringIO()) == ""
    assert ran(Terminal(), quiet=True) == ""
    monkeypatch.setenv("TERM", "dumb")
    assert ran(Terminal()) == ""


def test_progress_counts_by_rung_in_the_order_of_the_ladder():
    out = ran(Terminal())
    assert out.index("operation") < out.index("model")
    assert "3 fail" in out
    assert "算子" in ran(Terminal(), lang="zh")


def test_progress_goes_to_stderr(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress() as progress:
        progress.start({"operation": 1})
    assert "operation" in stream.getvalue()


def test_a_closed_stream_is_no_terminal():
    stream = io.StringIO()
    stream.close()
    with Progress(stream=stream) as progress:
        progress.start({"operation": 1})


def test_the_place_is_told_without_its_text_too():
    lines = [run(), failed("a", where={"file": PLACE["file"], "line": 41}), end(False)]
    assert re.search(r"place +my_model\.py:41\n", shown(lines))


RIGHT = {"file": "my_model.py", "line": 12, "text": "q = x @ w_q", "variable": "q", "expected": "q"}


def test_the_last_right_tensor_and_what_the_wrong_one_should_be_stand_below_the_place():
    where = {**PLACE, "expected": "scores", "last_right": RIGHT}
    lines = [run(), claim("q006.attention"), failed("q006.attention", where=where), end(False)]
    assert "`q` (line 12) was still right; `s`, line 41, should be `scores`" in " ".join(shown(lines).split())
    assert "第 41 行的 `s` 应为 `scores`" in "".join(shown(lines, "zh").split("\n"))


def test_that_nothing_known_fits_is_said_with_how_many_were_tried():
    cause = text("no known mistake fits (157 tried)", "没有吻合的已知错误（已尝试 157 个）")
    lines = [run(), claim("q006.attention"), failed("q006.attention"), end(False, cause=cause, causes=[])]
    assert "  cause   no known mistake fits (157 tried)" in shown(lines)
    assert render(results(lines)).count("no known mistake fits (157 tried)") == 1


def test_that_the_trace_ran_out_is_said():
    notes = ["the trace ran out of its budget after 3 s"]
    lines = [run(), claim("q006.attention"), failed("q006.attention"), end(False, trace_notes=notes)]
    assert "while the line was looked for: the trace ran out of its budget after 3 s" in shown(lines)
    assert "查找出错行时：跟踪在 3 秒后用完预算" in shown(lines, "zh")
