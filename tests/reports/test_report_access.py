"""Pages as a screen reader, a keyboard and a phone meet them: axe finds nothing serious on any of them."""

import pytest
from reports_helpers import failing, hostile, layered, passing, results, run

from conformance.cli.options import open_pack
from conformance.reports.formats import render
from conformance.reports.matrix import render as render_matrix
from conformance.site.build import build

GRAVE = ("serious", "critical")
WAYS = [("light", "en", 1280), ("light", "zh", 360), ("dark", "zh", 1280), ("dark", "en", 360)]


def findings(page):
    """What axe has against a page, with its first element each; everything that can be opened is open."""
    source = pytest.importorskip("axe_playwright_python.base").AXE_SCRIPT
    page.evaluate("document.querySelectorAll('details').forEach((d, i) => { if (i < 60) d.open = true; })")
    page.evaluate(source)
    found = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [
        (v["id"], v["impact"], v["nodes"][0]["html"][:200], v["nodes"][0]["failureSummary"][-300:])
        for v in found["violations"]
    ]


def whole():
    """Everything that a report can show."""
    lines = [*layered()[:-1], *(line for line in failing() if line["kind"] in ("claim", "verdict"))]
    wait = [{"claim": "q9.*", "reason": "later", "expires": "2027-01-31", "state": "used", "verdicts": 1}]
    return [*lines, {**layered()[-1], "waivers": wait, "required_not_graded": ["q005.rope"]}]


PAGES = {
    "report": lambda: render(results(whole()), "html"),
    "passing": lambda: render(results(passing()), "html"),
    "interrupted": lambda: render(results(layered()[:-1]), "html"),
    "hostile": lambda: render(results(hostile()), "html"),
    "grades": lambda: render_matrix([results(failing()), results(passing()), results([run()]), results(hostile())]),
}  # fmt: skip


@pytest.mark.parametrize(("theme", "lang", "width"), WAYS)
@pytest.mark.parametrize("name", PAGES)
def test_nothing_serious_is_found(opened, name, theme, lang, width):
    page = opened(PAGES[name]())
    page.set_viewport_size({"width": width, "height": 900})
    page.check(f"#{theme}", force=True)
    page.check(f"#{lang}", force=True)
    found = findings(page)
    assert [finding for finding in found if finding[1] in GRAVE] == []
    # Of the lesser ones, none that a page of this project should have.
    assert {finding[0] for finding in found} <= {"heading-order"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    return {path.name: path for path in build(open_pack(None, mistakes=True), folder)}


@pytest.mark.parametrize(("theme", "lang", "width"), [WAYS[0], WAYS[3]])
@pytest.mark.parametrize("name", ["index.html", "q008.html", "tensors.html", "coverage.html"])
def test_nothing_serious_is_found_on_the_site(browser, site, name, theme, lang, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(site[name].as_uri())
    page.check(f"#{theme}", force=True)
    page.check(f"#{lang}", force=True)
    assert [finding for finding in findings(page) if finding[1] in GRAVE] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()
