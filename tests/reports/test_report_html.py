import base64
import hashlib
import html.parser
import re

import pytest
from reports_helpers import (
    FLOW,
    HOSTILE,
    claim,
    drawn,
    end,
    failed,
    failing,
    hostile,
    passing,
    results,
    run,
    save,
    text,
    verdict,
)

from conformance.reports import html as page
from conformance.reports.html import MAX_BYTES, render

VOID = {"meta", "input", "br", "link", "img", "hr"}
OPTIONAL_END = {"td", "tr", "li", "p", "dt", "dd"}


class Page(html.parser.HTMLParser):
    """The elements of a page, its text, and what is not closed as it should be."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.faults: list[str] = []
        self.stack: list[str] = []
        self.data: dict[str, list[str]] = {}
        self.feed(source)
        self.close()
        self.faults += [f"open at the end: {tag}" for tag in self.stack]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.stack and self.stack[-1] != tag and self.stack[-1] in OPTIONAL_END:
            self.stack.pop()
        if not self.stack or self.stack.pop() != tag:
            self.faults.append(f"unexpected </{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        self.data.setdefault(self.stack[-1] if self.stack else "", []).append(data)

    def text_of(self, tag: str) -> str:
        return "".join(self.data.get(tag, []))


def many(n: int, rows: int = 1) -> list[dict[str, object]]:
    lines = [
        run(),
        *(
            line
            for i in range(n)
            for line in (claim(f"q006.c{i}"), *(failed(f"q006.c{i}", case=f"case-{j}") for j in range(rows)))
        ),
    ]
    return [*lines, end(False, {"rung": "operation", "claim": "q006.c0", "tensor": "z"})]


CASES = {
    "passing": passing(),
    "failing": failing(),
    "interrupted": failing()[:-1],
    "hostile": hostile(),
    "drawn": drawn(),
    "empty": [run(), end(False)],
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_page_is_one_well_formed_file_that_needs_no_other(name, lang):
    source = render(results(CASES[name]), lang)
    found = Page(source)
    assert found.faults == []
    assert [tag for tag, _ in found.elements].count("script") == 1
    for tag, attributes in found.elements:
        assert tag not in {
            "img",
            "link",
            "iframe",
            "object",
            "embed",
            "base",
            "image",
            "use",
            "foreignobject",
        }
        assert not [
            a
            for a in attributes
            if a.startswith("on") or a in ("src", "style", "srcset", "action", "formaction")
        ]
        assert attributes.get("href", "#").startswith("#")
    assert "url(" not in source
    assert "@import" not in source
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for _, a in found.elements if "href" in a} <= set(ids)


def test_the_policy_allows_its_own_script_and_style_and_nothing_else():
    found = Page(render(results(hostile())))
    policy = next(
        a["content"] for tag, a in found.elements if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(found.text_of(tag).encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_both_languages_are_there_and_one_is_chosen():
    en, zh = (render(results(failing()), lang) for lang in ("en", "zh"))
    for source in (en, zh):
        assert (
            '<i lang="en">does not conform: 4 of 9 verdicts broken</i><i lang="zh">不符合：9 个判定中有 4 个未通过</i>'
            in source
        )
        assert "body:has(#en:checked)" in source
    assert '<html lang="en">' in en
    assert '<html lang="zh">' in zh
    assert re.search(r'id="en" value="en" checked', en)
    assert re.search(r'id="zh" value="zh" checked', zh)


def test_the_page_tells_the_whole_story():
    source = render(results(failing()))
    for part in (
        "scale-by-model-width; explains 2 of 3 broken claims",
        '<span class="at">my_model.py:41</span>',
        '<code class="source">s = q @ k.T / np.sqrt(d_model)</code>',
        '<a href="#p1">',
        "head 1, query 2, key 3",
        '<td class="got">0.125</td><td>0.75</td><td>1.5e-06</td><td>130,000</td>',
        "import numpy as np\nprint(output[1, 2, 3])",
        "the target defines no <code>Model</code>",
        "weights of 3 layers",
        "own process, memory limit 4096 MB, deadline 10 s",
        "<dt>target.numpy</dt><dd>2.1.0</dd>",
        'data-verdict="pass fail " data-rung="operation"',
    ):
        assert part in source
    assert "no end line" in render(results(failing()[:-1]))


def test_hostile_text_is_text():
    source = render(results(hostile()))
    assert source.count("<script>") == 1
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in source
    assert "{{ 7*7 }}" in source
    assert not re.search(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202a-\u202e\u2066-\u2069\ud800-\udfff]", source
    )
    assert "\\u202etxt.exe" in source


@pytest.mark.parametrize(
    "lines",
    [
        many(100, 5),
        many(500),
        many(5, 400),
        many(1500, 2),
        hostile("<" * 400_000),
        [run(printed="<" * 10_000_000), failed("a", summary=text("&" * 10_000_000)), end(False)],
        [run(), *(failed(f"{HOSTILE}{i}", summary=text("<" * 5_000), reproduce="<\n" * 5_000) for i in range(500)), end(False)],
        [run(), *(verdict(f"c{i}", given="unsupported", summary=text("&" * 5_000 + str(i))) for i in range(500)), end(False)],
    ],
    ids=["100x5", "500", "5x400", "1500x2", "long", "huge", "hostile", "reasons"],
)  # fmt: skip
def test_a_page_stays_small(lines):
    source = render(results(lines))
    assert len(source.encode()) <= MAX_BYTES
    assert Page(source).faults == []


def test_500_verdicts_are_shown_whole():
    source = render(results(many(100, 5)))
    assert source.count('class="problem fail"') == 100
    assert source.count("<tr><td>case-") == 500
    assert "… and " not in source


def test_what_is_left_out_is_counted():
    assert "… and 50 more" in render(results(many(250)))
    assert page.TIERS[0].problems == 200


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    from conformance.reports import formats
    from conformance.results.store import StoreError, read_results

    read = read_results(save(tmp_path, failing()))
    target = tmp_path / "report.html"
    target.write_text("an earlier one")
    (tmp_path / ".report.html.part").mkdir()  # in the way
    with pytest.raises(StoreError, match=r"report\.html cannot be written: .*; choose another place with -o"):
        formats.write(read, "html", target)
    assert target.read_text() == "an earlier one"
    (tmp_path / ".report.html.part").rmdir()
    formats.write(read, "html", target)
    assert target.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html", "results.jsonl"]


# -- the drawing of a layer, pictures of arrays --------------------------------------------------------


def boxes(lines):
    from conformance.reports.dataflow import drawing
    from conformance.reports.reading import report_of

    read = results(lines)
    found = drawing(report_of(read), read.run.get("flow"))
    return {box.tensor: box for box in found.boxes} if found else None


def test_each_tensor_has_the_colour_of_what_was_found_of_it():
    found = boxes(drawn())
    assert {name: box.state for name, box in found.items()} == {
        "x": "unseen", "q": "unseen", "k": "unseen", "weights": "good", "z": "bad", "y": "silent",
    }  # fmt: skip
    assert [name for name, box in found.items() if box.first] == ["z"]
    assert found["z"].claims == ("q006.z",)
    assert boxes(passing()) is None
    assert (
        boxes([run(flow=FLOW), claim("a", tensors={}), verdict("a"), end(True)]) is None
    )  # nothing is known of any


def test_the_first_wrong_tensor_is_the_one_that_was_found_in_the_source():
    place = {"file": "a.py", "line": 3, "text": "w = …", "variable": "w", "expected": "layers.0.weights",
             "last_right": {"file": "a.py", "line": 2, "expected": "layers.0.k", "variable": "k"}}  # fmt: skip
    lines = drawn()
    lines[4]["where"] = place
    found = boxes(lines)
    assert (found["weights"].state, found["weights"].first) == ("bad", True)
    # What it is made of was right as well; of what it is not made of, nothing is known.
    assert (found["k"].state, found["x"].state, found["q"].state, found["z"].first) == (
        "good",
        "good",
        "unseen",
        False,
    )


def test_boxes_do_not_overlap_and_stand_below_what_they_are_made_of():
    from conformance.reports.dataflow import HEIGHT, WIDTH

    found = list(boxes(drawn()).values())
    for i, a in enumerate(found):
        for b in found[i + 1 :]:
            assert abs(a.x - b.x) >= WIDTH or abs(a.y - b.y) >= HEIGHT
    by_name = {box.tensor: box for box in found}
    assert all(by_name[source].y < box.y for box in found for source in box.sources)


def test_the_drawing_leads_to_the_claims():
    source = render(results(drawn()))
    assert '<a href="#p1" class="bad first"' in source
    assert '<g tabindex="0" class="unseen"' in source
    assert "[batch, head, query, dv]: of z / z 的说明" in source
    assert 'data-question="Q007" data-level="MUST"' in source
    # The layer in which it is worst leads to the claim as well.
    assert re.search(r'<a href="#p1" class="tile bad first"[^>]*>\s*<span><i lang="en">layer 1', source)


@pytest.mark.parametrize(
    "flow",
    [
        None,
        3,
        [],
        [1, {}],
        [{"tensor": "a", "from": ["a", "b"]}, {"tensor": "b", "from": "a"}, {"tensor": "a"}],
    ],
)
def test_a_flow_that_is_none_is_no_drawing_and_no_error(flow):
    lines = drawn()
    lines[0]["flow"] = flow
    assert "<svg" not in render(results(lines))


def test_a_layer_of_a_hundred_tensors_in_a_ring_is_bounded():
    lines = drawn()
    lines[0]["flow"] = [{"tensor": f"t{i}", "from": [f"t{i - 1}", f"t{(i + 1) % 200}"]} for i in range(200)]
    lines[0]["flow"][5]["tensor"] = "z"
    assert render(results(lines)).count("<rect") <= 80


def picture_of(**arrays):
    from conformance.reports.lines import verdict_of
    from conformance.reports.pictures import picture

    lines = drawn()
    lines[4]["evidence"]["arrays"] |= arrays
    return picture(verdict_of(lines[4]).evidence)


def test_arrays_go_into_the_page_flat_and_short():
    import html
    import json

    source = render(results(drawn()))
    data = json.loads(html.unescape(re.search(r'data-arrays="([^"]*)"', source)[1]))
    assert data == {
        "axes": ["head", "query", "dv"], "sizes": [2, 2, 2], "fixed": {"batch": 1}, "spot": [1, 1, 1],
        "got": [1, 2, 3, "NaN"] * 2, "expected": [1, 2, 3, 4] * 2,
    }  # fmt: skip
    assert '<template id="picture">' in source


@pytest.mark.parametrize(
    "arrays",
    [
        {"got": None},
        {"got": [[[1, 2], [3]]] * 2},
        {"got": [[[1, 2], [3, "x"]]] * 2},
        {"got": [[[1, 2], [3, {}]]] * 2},
        {"axes": ["head"]},
        {"axes": []},
        {"got": [[[1] * 200] * 100], "expected": [[[1] * 200] * 100]},
        {"expected": [[[1, 2], [3, 4]]]},
    ],
)
def test_arrays_that_are_none_are_not_drawn(arrays):
    assert picture_of(**arrays) == ""


# -- the table of many ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_table_of_many_is_well_formed_and_needs_no_other(name, monkeypatch):
    from conformance.reports import matrix

    monkeypatch.setattr(f"{__name__}.OPTIONAL_END", {*OPTIONAL_END, "th"})
    source = matrix.render([results(CASES[name]), results(passing())])
    found = Page(source)
    assert found.faults == []
    assert [tag for tag, _ in found.elements].count("script") == 1
    for tag, attributes in found.elements:
        assert tag not in {"img", "link", "iframe", "object", "embed", "base", "svg"}
        assert not [a for a in attributes if a.startswith("on") or a in ("src", "style")]
    assert not re.search(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202a-\u202e\u2066-\u2069\ud800-\udfff]", source
    )


def test_the_rows_of_a_table_are_in_the_order_of_their_problems():
    from conformance.reports.entries import entry_of

    def rank(lines, name):
        return entry_of(results(lines), name)[0].rank

    one = [run(), claim("a"), failed("a"), claim("b"), verdict("b"), end(False)]
    two = [run(), claim("a"), failed("a"), claim("b"), failed("b"), end(False)]
    should = [run(), claim("a"), failed("a", level="SHOULD"), claim("b"), verdict("b"), end(True)]
    missing = [run(), claim("b"), verdict("b"), end(False, required_not_graded=["a"])]
    nothing = [run(notes=["it raised"]), end(False)]
    runs = {
        "passes": passing(), "should": should, "missing": missing, "one": one, "two": two, "cut": one[:-1], "nothing": nothing,
    }  # fmt: skip
    assert sorted(runs, key=lambda name: rank(runs[name], name)) == list(runs)
