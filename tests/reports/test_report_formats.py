"""Markdown, JSON and CSV, and the table of formats."""

import csv
import io
import json
import re

import pytest
from markdown_it import MarkdownIt
from reports_helpers import claim, end, failed, failing, hostile, passing, results, run, text, verdict

from conformance.reports import csv_report, formats, json_report, markdown
from conformance.results.store import parse_results

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


# -- Markdown ------------------------------------------------------------------------------------------


def rendered(source: str) -> str:
    return MarkdownIt("commonmark").enable("table").enable("strikethrough").render(source)


def test_markdown_puts_the_cause_first():
    out = markdown.render(results(failing())).split("\n")
    assert out[0] == "### ❌ `my_model.py` does not conform: 4 of 9 verdicts broken"
    assert out[2] == "- **cause**: The scores are divided by √d\\_model; divide by √Dh."
    assert out[3] == "  - scale-by-model-width; explains 2 of 3 broken claims"
    assert out[4] == "- **place**: `my_model.py:41` `s = q @ k.T / np.sqrt(d_model)` (variable `s`)"
    assert out[5] == "- **change**: `z = dot(weights, values, over=key)`"


def test_markdown_has_the_ladder_and_each_broken_claim_folded():
    out = markdown.render(results(failing()))
    assert "| operation | 1 | 3 |   |   | 1 |   | ← first broken |" in out
    assert out.count("<details>") == 5
    assert out.count("</details>") == 5
    page = rendered(out)
    assert "<td>operation</td>" in page
    assert (
        '<pre><code class="language-text">import numpy as np\nprint(output[1, 2, 3])\n</code></pre>' in page
    )
    assert "<li>the target defines no <code>Model</code>: 2 claims</li>" in page


def test_markdown_in_chinese():
    out = markdown.render(results(failing()), "zh")
    assert out.startswith("### ❌ `my_model.py` 不符合")
    assert "- **原因**：分数除以了 √d\\_model；应除以 √Dh。" in out
    assert "| 算子 | 1 | 3 |" in out
    assert "得到 `0.125`，应为 `0.75`" in out


@pytest.mark.parametrize("lines", [passing(), failing()[:-1], [run(), end(False)]])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_markdown_of_other_runs(lines, lang):
    out = markdown.render(results(lines), lang)
    assert out.startswith(
        "### ✅" if lines[-1].get("conforms") else "### ⚠️" if lines[-1]["kind"] != "end" else "### ❌"
    )


def test_hostile_text_is_no_markdown():
    out = markdown.render(results(hostile()))
    assert not CONTROL.search(out)
    page = rendered(out)
    tags = set(re.findall(r"</?([a-zA-Z][a-zA-Z0-9]*)", page))
    assert tags <= {
        "h3", "h4", "ul", "li", "strong", "code", "pre", "table", "thead", "tbody", "tr", "th", "td", "details", "summary",
        "b", "blockquote", "p", "sub",
    }  # fmt: skip
    assert page.count("<details>") == page.count("</details>") == 5
    outside = re.sub(r"<code[^>]*>.*?</code>", "", page, flags=re.DOTALL)
    for trap in ("@everyone", "#1", "GH-2", "https://", "www.evil", "<strong>bold"):
        assert trap not in outside
    assert "alert(1)" in page


def test_a_comment_takes_it():
    lines = [
        run(),
        *(line for i in range(200) for line in (claim(f"c{i}"), failed(f"c{i}", reproduce="x = 1\n" * 400))),
        end(False),
    ]
    out = markdown.render(results(lines))
    assert len(out) <= 65_536
    assert re.search(r"… and 1\d\d more in report\.html", out)
    assert out.count("```") % 2 == 0
    assert len(markdown.render(results(hostile("`" * 400_000)))) <= 65_536


@pytest.mark.parametrize("value", ["a", "`", "``", "a`b", " a ", "```x```", "\\", "<b>", "*a*"])
def test_a_span_and_a_block_of_code_hold_anything(value):
    escaped = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert rendered(markdown.code(value)) == f"<p><code>{escaped}</code></p>\n"
    assert rendered(markdown.fenced(value)) == f'<pre><code class="language-text">{escaped}\n</code></pre>\n'


# -- JSON ----------------------------------------------------------------------------------------------


def test_json_is_the_whole_run():
    lines = failing()
    out = json.loads(json_report.render(results(lines)))
    assert out["run"] == lines[0]
    assert out["claims"] == [line for line in lines if line["kind"] == "claim"]
    assert out["verdicts"] == [line for line in lines if line["kind"] == "verdict"]
    assert out["end"] == lines[-1]
    assert out["notes"] == []


def test_json_of_an_interrupted_run_has_no_end():
    out = json.loads(json_report.render(parse_results([json.dumps(run()), '{"kind": "cl'], "x")))
    assert out["end"] is None
    assert "cut off" in out["notes"][0]


def test_json_is_safe_to_print_and_says_the_same():
    lines = hostile()
    out = json_report.render(results(lines))
    assert not CONTROL.search(out)
    assert json.loads(out)["run"] == lines[0]
    assert "输出" in json_report.render(results(failing()))


def test_json_is_strict_and_bounded():
    lines = ['{"kind": "run", "seed": NaN, "printed": "' + "x" * 1_000_000 + '"}']
    out = json.loads(json_report.render(parse_results(lines, "x")), parse_constant=pytest.fail)
    assert out["run"]["seed"] == "NaN"
    assert out["run"]["printed"].endswith("x… 934464 characters left out")


# -- CSV -----------------------------------------------------------------------------------------------


def table(lines, lang="en"):
    return list(csv.DictReader(io.StringIO(csv_report.render(results(lines), lang))))


def test_csv_has_a_row_for_each_verdict():
    rows = table(failing())
    assert len(rows) == 9
    row = rows[2]
    assert row["claim"] == "q006.attention"
    assert row["statements"] == "Q6.4 Q6.10"
    assert row["verdict"] == "fail"
    assert float(row["margin"]) == 130000
    assert (row["tensor"], row["index"], row["got"], row["expected"]) == (
        "z",
        "head 1, query 2, key 3",
        "0.125",
        "0.75",
    )
    assert (row["mistakes"], row["file"], row["line"]) == ("scale-by-model-width", "my_model.py", "41")
    assert table(failing(), "zh")[0]["summary"] == "成立"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r=", "'=", " ="])
def test_no_cell_is_a_formula(start):
    evil = f'{start}HYPERLINK("https://evil.example";"x")'
    row = table(
        [run(), claim(evil, title=text(evil)), verdict(evil, case=evil, summary=text(evil)), end(True)]
    )[0]
    for name in ("claim", "title", "case", "summary"):
        assert row[name].startswith("'")
        assert row[name].endswith(evil.strip().lstrip("'"))


def test_negative_numbers_stay_numbers():
    seen = {"tensor": "z", "index": {}, "got": -1.5, "expected": "-Infinity", "tolerance": 1e-6, "arrays": {}}
    row = table([run(), failed("a", evidence=seen), end(False)])[0]
    assert float(row["got"]) == -1.5
    assert row["expected"] == "-Infinity"


def test_csv_of_hostile_text_has_one_line_a_row():
    out = csv_report.render(results(hostile("x" * 400_000)))
    assert not CONTROL.search(out)
    assert len(out) < 40_000
    assert len(list(csv.reader(io.StringIO(out)))) == out.count("\n") == 5


# -- the table -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", formats.FORMATS)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_format_renders_every_run(name, lang):
    for lines in (
        passing(),
        failing(),
        failing()[:-1],
        hostile(),
        [run()],
        [{"kind": "run"}, {"kind": "verdict"}],
    ):
        assert formats.render(results(lines), name, lang)


def test_an_unknown_format():
    with pytest.raises(formats.FormatError, match="there is no format 'pdf'"):
        formats.renderer("pdf")
