"""Whatever a submission writes into names, prints, messages and files: no format is steered by it, or grows with it."""

import csv
import html.parser
import io
import json
import re
import xml.etree.ElementTree as ET

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from reports_helpers import HOSTILE, claim, end, failed, layered, results, run, text, verdict

from conformance.language.program import Text
from conformance.reports import difference, grades, matrix
from conformance.reports.entries import entry_of, failed_entry
from conformance.reports.formats import FORMATS, render
from conformance.reports.html import MAX_BYTES
from conformance.reports.reveal import revealed
from conformance.reports.terminal import show
from conformance.results.store import Results

PIECES = [
    "<script>alert(1)</script>", "</script>", "<!--", "-->", "]]>", "<![CDATA[", "&lt;", "&#0;", "\" onload=\"x", "' x='", "</style>",
    "</summary></details>", "</code>", "javascript:alert(1)", "`", "``` \n", "~~~", "\n# h", "\n- x", "|", "\\", "*", "_", "[a](b)", "![a](b)", "<http://a.b>",
    "https://a.example", "www.a.example", "@all", "#12", "GH-1", "$$", "{{ 1 }}", "{% x %}", "%s", "{0}", "{claim}", "=1+1", "+1", "-1", "@x", "\t=1",
    "\r\n", "\x00", "\x07", "\x08", "\x1b[31m", "\x1b]0;t\x07", "\x9b", "\u2028", "\u2029", "\u202e", "\u2066", "\u200b", "\ufeff", "\ud800", "\U000e0041",
    "e\u0301\u0301\u0301\u0301\u0301\u0301", "a" * 200, "\u4e2d\u6587", " ", "\n", ",", ";", '"',
]  # fmt: skip
NASTY = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=6)), max_size=6).map("".join)
CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200b\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)


@st.composite
def runs(draw):
    """A run of every sort of line, in which each text that is not ours is one of these."""

    def bad():
        return draw(NASTY)

    place = {"file": bad(), "line": 3, "text": bad(), "variable": bad(), "expected": bad(), "last_right": {"file": bad(), "line": 1, "variable": bad()}}  # fmt: skip
    seen = {
        "tensor": bad(), "index": {bad(): 3}, "got": bad(), "expected": 1.0, "tolerance": 1.0,
        "arrays": {"axes": [bad(), bad()], "fixed": {bad(): 1}, "got": [[1, 2], [3, 4]], "expected": [[1, 2], [3, 5]]},
    }  # fmt: skip
    profile = {
        "over": "layer",
        "tensors": [f"layers.0.{bad()}", f"{bad()}.layers.1.y"],
        "margins": [1, 9],
        "local": False,
    }
    name = bad()
    found = [{"mistake": bad(), "fit": 1.0, "says": text(bad(), bad())}]
    return [
        run(target=bad(), isolation=bad(), printed=bad(), environment={bad(): bad(), "a": {bad(): bad()}}, notes=[bad(), text(bad(), bad())],
            flow=[{"tensor": n, "axes": [bad()], "equation": bad(), "from": ["z"], "says": text(bad(), bad())} for n in ("z", bad())]),
        claim(name, title=text(bad(), bad()), says=text(bad(), bad()), equation=bad(), statements=[bad()], question=bad()),
        failed(name, summary=text(bad(), bad()), case=bad(), variant=bad(), dtype=bad(), diagnosis=found, where=place, evidence=seen, reproduce=bad(), profiles=[profile]),
        verdict(bad(), "layer", "error", summary=text(bad(), bad()), where=place, reproduce=bad()),
        verdict(bad(), "layer", "error", where={"node": bad(), "op_type": bad()}),
        verdict(bad(), bad(), "unsupported", summary=text(bad(), bad())),
        verdict(bad(), "layer", "waived", summary=text(bad(), bad())),
        verdict(bad(), "model", bad()),
        end(False, {"rung": "operation", "claim": bad(), "tensor": bad()}, sentence=text(bad(), bad()), cause=text(bad(), bad()), required_not_graded=[bad()],
            causes=[{"mistakes": [bad()], "says": text(bad(), bad()), "where": place, "claims": [name], "verdicts": 1}], trace_notes=[bad()],
            waivers=[{"claim": bad(), "reason": bad(), "expires": bad(), "state": bad(), "verdicts": 1}]),
    ]  # fmt: skip


class Page(html.parser.HTMLParser):
    """Everything in a page that could do something."""

    def __init__(self, source):
        super().__init__()
        self.scripts, self.found = 0, []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        if tag in ("img", "iframe", "object", "embed", "link", "base", "audio", "video"):
            self.found.append(tag)
        for name, value in attrs:
            if name.startswith("on") or (
                name in ("href", "src", "action") and not (value or "").startswith("#")
            ):
                self.found.append(f"{name}={value}")


def check_page(source):
    page = Page(source)
    assert page.scripts == 1
    assert page.found == []
    assert not CONTROL.search(source)
    assert len(source.encode()) <= MAX_BYTES


def check_markdown(source):
    assert not CONTROL.search(source)
    page = cmarkgfm.github_flavored_markdown_to_html(source, Options.CMARK_OPT_UNSAFE)
    tags = set(re.findall(r"<([a-z][a-z0-9]*)", page))
    assert not tags & {"a", "img", "script", "em", "h1", "h2", "hr", "del", "ol", "input"}
    assert page.count("<details>") == page.count("</details>")
    assert len(source) <= 65_536


def check_csv(source, columns=None):
    assert not CONTROL.search(source)
    rows = list(csv.reader(io.StringIO(source)))
    assert len({len(row) for row in rows}) == 1
    for row in rows[1:]:
        for cell in row:
            assert not cell.startswith(("=", "@", "\t", "\r"))
            assert not cell.startswith(("+", "-")) or number(cell)


def number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


def check_json(source):
    json.loads(source)
    assert not CONTROL.search(source.replace("\ud800", ""))


CHECKS = {
    "html": check_page, "markdown": check_markdown, "junit": ET.fromstring, "ctrf": check_json, "gradescope": check_json,
    "json": check_json, "badge": check_json, "csv": check_csv, "matrix": check_page,
}  # fmt: skip

SLOW = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],  # of a text like these the shortest tells no more
)


@pytest.mark.parametrize("name", FORMATS)
@SLOW
@given(lines=runs())
def test_no_format_is_steered(name, lines):
    for level in ("full", "hint"):
        for lang in ("en", "zh"):
            CHECKS[name](render(revealed(results(lines), level), name, lang))


@SLOW
@given(lines=runs(), other=runs())
def test_nor_is_a_difference_or_a_terminal(lines, other):
    check_markdown(difference.render(results(lines), results(other)))
    for lang in ("en", "zh"):
        stream = io.StringIO()
        show(results(lines), lang, stream)
        assert not CONTROL.search(stream.getvalue())


@SLOW
@given(lines=runs(), name=NASTY, more=st.dictionaries(NASTY, NASTY, max_size=3))
def test_nor_is_a_table_of_many(lines, name, more):
    from dataclasses import replace

    entry, headings = entry_of(results(lines), name)
    entries = [replace(entry, more=more), failed_entry(name, Text(name, name))]
    check_page(matrix.render_entries(entries, headings))
    check_csv(grades.render(entries))
    check_json(grades.as_json(entries))


LARGE = "x<&`\x1b\u202e" * 1_700_000
"""Ten megabytes."""
BOUNDS = {"html": MAX_BYTES, "matrix": 400_000, "markdown": 65_536, "json": 6_000_000}


@pytest.fixture(scope="module")
def large():
    """A run in which every text is as large, read once."""
    place = {"file": LARGE, "line": 3, "text": LARGE, "variable": LARGE}
    lines = [
        run(target=LARGE, printed=LARGE, notes=[LARGE], isolation=LARGE, environment={"a": LARGE}),
        claim("a", title=text(LARGE), says=text(LARGE), equation=LARGE),
        failed("a", summary=text(LARGE), case=LARGE, where=place, reproduce=LARGE, diagnosis=[{"mistake": LARGE, "fit": 1, "says": text(LARGE)}]),
        verdict("b", "layer", "unsupported", summary=text(LARGE)),
        end(False, sentence=text(LARGE), trace_notes=[LARGE]),
    ]  # fmt: skip
    first, *_ = lines
    return Results(first, {"a": lines[1]}, tuple(lines[2:4]), lines[4], (LARGE,))


@pytest.mark.xdist_group("large")
@pytest.mark.parametrize("name", [*FORMATS, "terminal", "diff", "grades"])
def test_ten_megabytes_of_it_are_bounded(name, large):
    read = large
    if name == "terminal":
        stream = io.StringIO()
        show(read, "en", stream)
        out = stream.getvalue()
    elif name == "diff":
        out = difference.render(read, read)
    elif name == "grades":
        out = grades.render([entry_of(read, LARGE)[0]])
    else:
        out = render(read, name)
    assert len(out.encode()) <= BOUNDS.get(name, 200_000)


def test_the_hostile_text_of_the_other_tests_is_among_these():
    assert all(piece in HOSTILE for piece in ("<script>", "\x1b", "\u202e", "{{"))
    assert layered()
