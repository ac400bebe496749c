"""Takes the pictures of the README: grades a wrong submission and photographs its report.

python docs/screenshots.py        needs Chromium and the package `playwright`
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUBMISSION = ROOT / "tests" / "zoo" / "wrong" / "llama_no_scale.py"
PICTURES = ROOT / "docs"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main() -> None:
    """Grade, open, photograph."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        # Copied, so that the picture shows a name and not where this repository lies.
        mine = Path(home) / "my_llama.py"
        mine.write_text(SUBMISSION.read_text(encoding="utf-8").replace("  # WRONG", ""), encoding="utf-8")
        command = [sys.executable, "-m", "conformance", "run", mine.name, "-o", "report", "--quiet"]
        subprocess.run(command, check=False, cwd=home, stdout=subprocess.DEVNULL)  # it does not conform
        page_file = Path(home) / "report" / "report.html"
        page_file.write_text(page_file.read_text(encoding="utf-8").replace(f"{home}/", ""), encoding="utf-8")
        executable = next(filter(None, map(shutil.which, BROWSERS)), None)
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 960, "height": 1180})
        page.goto(page_file.as_uri())
        page.screenshot(path=PICTURES / "report.png")
        # The drawing, the layers and both charts, in the other language and the other colours.
        page.check("#zh", force=True)
        page.check("#dark", force=True)
        box = page.locator("section:has(.flowing)").bounding_box()
        assert box is not None
        page.set_viewport_size({"width": 960, "height": round(box["height"]) + 32})
        page.evaluate("y => scrollTo(0, y)", box["y"] - 16)
        page.screenshot(path=PICTURES / "report-layers.png")
        browser.close()


if __name__ == "__main__":
    main()
