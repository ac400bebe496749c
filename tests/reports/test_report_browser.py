"""The pages in a real browser: what a person does with them, from disk, without a network."""

import pytest
from reports_helpers import drawn, failing, layered, passing, results

from conformance.reports.formats import render
from conformance.reports.matrix import render as render_matrix


def shown(page):
    return [
        claim.get_attribute("data-claim") for claim in page.query_selector_all(".claim") if claim.is_visible()
    ]


def test_a_filter_is_kept_in_the_address(opened):
    page = opened(render(results(failing()), "html"))
    assert len(shown(page)) == 6
    page.click("label:has(input[name=verdict][value=fail])")
    assert shown(page) == ["q006.attention", "q007.weights"]
    page.fill("input[name=text]", "tle of q006")
    assert shown(page) == ["q006.attention"]
    address = page.url[page.url.index("#") :]
    again = opened(render(results(failing()), "html"), address)
    assert shown(again) == ["q006.attention"]
    assert again.input_value("input[name=text]") == "tle of q006"
    assert again.inner_text("#count") == "1 / 6"


def test_the_language_is_switched_and_remembered(opened):
    page = opened(render(results(failing()), "html"))
    assert page.is_visible("text=does not conform: 4 of 9")
    page.click("label:has(#zh)")
    assert page.is_visible("text=不符合：9 个判定中有 4 个未通过")
    assert not page.is_visible("text=does not conform: 4 of 9")
    again = opened(render(results(failing()), "html"))
    assert again.is_visible("text=不符合：9 个判定中有 4 个未通过")
    assert again.evaluate("document.documentElement.lang") == "zh"


def ground(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_the_colours_are_chosen_and_remembered_and_paper_is_white(opened):
    page = opened(render(results(layered()), "html"))
    light = ground(page)
    page.emulate_media(color_scheme="dark")
    dark = ground(page)
    assert dark != light
    page.click("label:has(#light)")
    assert ground(page) == light
    page.emulate_media(color_scheme="light")
    page.click("label:has(#dark)")
    assert ground(page) == dark
    again = opened(render(results(failing()), "html"))
    assert ground(again) == dark
    again.emulate_media(media="print")
    assert ground(again) == "rgb(255, 255, 255)"
    again.emulate_media(media="screen")
    again.click("label:has(#system)")
    assert ground(again) == light
    # A table of many has the same switches, and remembers the same.
    assert ground(opened(render_matrix([results(failing())]))) == light


def test_from_the_strip_of_layers_to_the_claim(opened):
    page = opened(render(results(layered()), "html"))
    page.evaluate("document.querySelectorAll('.problem').forEach(p => p.open = false)")
    tiles = page.query_selector_all(".strip .tile")
    assert [tile.inner_text().split()[:3] for tile in tiles] == [
        ["layer", "0", "✓"],
        ["layer", "1", "✗"],
        ["layer", "2", "–"],
    ]
    tiles[1].click()
    page.wait_for_selector(".problem[open]")
    claim = page.query_selector(".problem[open]").get_attribute("data-claim")
    assert claim in ("q006.z", "q006.z-everywhere")
    assert len(page.query_selector_all("figure.chart svg rect")) > 10


def test_from_the_drawing_to_the_numbers(opened):
    page = opened(render(results(drawn()), "html"))
    page.evaluate("document.querySelector('#p1').open = false")
    page.hover(".flow a.first")
    assert "z [batch, head, query, dv]" in page.inner_text("#about")
    page.click(".flow a.first")
    page.wait_for_selector("#p1[open] canvas")
    assert len(page.query_selector_all("#p1 canvas")) == 3
    assert page.inner_text("#p1 .reading") == "head 1, query 1, dv 1, batch 1: NaN | 4 | NaN"
    page.select_option("#p1 .planes select", "0")
    assert page.inner_text("#p1 .reading").startswith("head 0, query 1, dv 1")
    assert [bar.inner_text() for bar in page.query_selector_all("#p1 .profile span")] == [
        "head",
        "query",
        "dv",
    ]
    # The worst element is not of the ground's colour.
    pixel = "[...document.querySelectorAll('#p1 canvas')[0].getContext('2d').getImageData(34 + 36, 34 + 36, 1, 1).data]"
    assert page.evaluate(pixel) == [122, 31, 162, 255]


def test_keyboard_alone_opens_a_claim(opened):
    page = opened(render(results(failing()), "html"))
    page.focus(".claim summary")
    page.keyboard.press("Enter")
    assert page.query_selector(".claim[open] table")


def focused(page):
    return page.evaluate(
        "(e => [e.tagName, e.id, e.name, e.textContent.trim().slice(0, 20), getComputedStyle(e).outlineStyle])(document.activeElement)"
    )


def test_the_keyboard_goes_through_the_page_in_its_order_and_shows_where_it_is(opened):
    page = opened(render(results(layered()), "html"))
    stops, at = [], []
    for _ in range(60):
        page.keyboard.press("Tab")
        stop = focused(page)
        if stop[0] == "BODY":
            break
        stops.append(stop)
        at.append(page.evaluate("(b => b.top + scrollY)(document.activeElement.getBoundingClientRect())"))
    kinds = [(tag, name or ident) for tag, ident, name, *_ in stops]
    # Colours and language first, each one stop; then the ladder, the drawing, the layers, the claims.
    assert kinds[:3] == [("INPUT", "theme"), ("INPUT", "language"), ("A", "")]
    assert any(tag in ("a", "g") for tag, _ in kinds)
    assert ("SUMMARY", "") in kinds
    # Whatever has the focus is framed; a box that cannot be seen frames what stands for it.
    assert all(outline != "none" for tag, *_, outline in stops if tag != "INPUT")
    tops = [top for (tag, *_), top in zip(stops, at, strict=True) if tag == "SUMMARY"]
    assert tops == sorted(tops)


def test_it_is_printed_with_all_that_is_broken_open(opened):
    page = opened(render(results(failing()), "html"))
    assert len(page.query_selector_all(".problem[open]")) < 3
    assert page.pdf()[:5] == b"%PDF-"
    assert len(page.query_selector_all(".problem[open]")) == 3


@pytest.mark.parametrize("width", [360, 1400])
@pytest.mark.parametrize(
    "make", [lambda: render(results(drawn()), "html"), lambda: render_matrix([results(failing())] * 9)]
)
def test_no_page_is_wider_than_its_window(opened, width, make):
    page = opened(make())
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_table_of_many_is_filtered_and_a_cell_leads_to_its_claim(opened, tmp_path):
    from conformance.reports.entries import entry_of
    from conformance.reports.matrix import joined, render_entries

    (tmp_path / "report.html").write_text(render(results(failing()), "html"), encoding="utf-8")
    found = [
        entry_of(results(lines), name, "report.html")
        for name, lines in (("ann", failing()), ("ben", passing()))
    ]
    page = opened(render_entries([entry for entry, _ in found], joined(headings for _, headings in found)))
    rows = ".rows tbody tr:visible"
    assert [row.query_selector("th").inner_text() for row in page.query_selector_all(rows)] == ["ben", "ann"]
    page.fill("input[name=text]", "scale-by")
    assert [row.query_selector("th").inner_text() for row in page.query_selector_all(rows)] == ["ann"]
    page.click(".grid tbody tr:visible td.f")
    page.wait_for_url("**/report.html#q006.attention")
    assert page.query_selector("#p1").get_attribute("open") is not None


def test_what_says_something_by_its_colour_is_printed(opened):
    """A browser leaves grounds out of what it prints, unless it is told that they matter."""
    page = opened(render(results(drawn()), "html"))
    page.emulate_media(media="print")
    adjusted = "e => getComputedStyle(e).printColorAdjust || getComputedStyle(e).webkitPrintColorAdjust"
    bars = page.query_selector_all(".profile i, .profile b, .profile span, .profile div")
    assert bars
    assert {bar.evaluate(adjusted) for bar in bars} == {"exact"}


def test_a_table_of_many_is_printed_whole(opened):
    """Nothing scrolls on paper: a name, or an error, of any length leaves room for the columns after it."""
    from conformance.reports.entries import entry_of
    from conformance.reports.matrix import render_entries

    said = {"en": "it raised ValueError: " + "shapes_do_not_fit" * 20, "zh": "抛出异常"}
    lines = [
        {**line, "summary": said, "verdict": "error", "diagnosis": []}
        if line.get("verdict") == "fail"
        else line
        for line in failing()
    ]
    made = [entry_of(results(lines), name) for name in ("x" * 200, "ann.py", "李" * 90)]
    page = opened(render_entries([entry for entry, _ in made], made[0][1]))
    page.set_viewport_size({"width": 720, "height": 1000})  # A4 within its margins
    page.emulate_media(media="print")
    box, room = page.query_selector(".rows").bounding_box(), page.query_selector("main").bounding_box()
    assert box["x"] + box["width"] <= room["x"] + room["width"] + 1
