"""The picture in README: `make demo`, then `python docs/images/picture.py runs/demo/report.html`."""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def main(page: Path, picture: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        opened = browser.new_page(viewport={"width": 1280, "height": 1560})
        opened.goto(page.resolve().as_uri())
        opened.wait_for_selector("svg.marks", state="attached")
        opened.wait_for_timeout(1000)
        box = opened.locator("#verdicts + section").bounding_box()  # from the top to the end of the one picture
        assert box is not None
        opened.screenshot(
            path=picture, full_page=True, clip={"x": 0, "y": 0, "width": 1280, "height": box["y"] + box["height"]}
        )
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).with_name("page.png"))
