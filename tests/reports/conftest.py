"""A real browser, in which pages are opened as a person opens them: from disk, without a network."""

import shutil

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    if BROWSER is None:
        pytest.skip("there is no Chromium on this machine")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a page; what it says on its console is a failure, and so is a request for anything but itself."""
    said = []
    context = browser.new_context(viewport={"width": 1100, "height": 900})

    def opened(source, address=""):
        path = tmp_path / "page.html"
        path.write_text(source, encoding="utf-8")
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on(
            "request",
            lambda request: None if request.url.startswith(tmp_path.as_uri()) else said.append(request.url),
        )
        page.goto(path.as_uri() + address)
        return page

    yield opened
    context.close()
    assert said == []
