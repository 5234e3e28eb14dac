"""Takes the README's picture from a real run: `make demo`, then `python docs/images/picture.py runs/demo/report.html`."""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def main(page: Path, picture: Path = Path(__file__).with_name("page.png")) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        opened = browser.new_page(viewport={"width": 1280, "height": 1560})
        opened.goto(page.resolve().as_uri())
        opened.wait_for_selector("svg .marks")
        opened.evaluate("document.querySelector('#curve, [id*=curve], [id*=picture]')?.scrollIntoView()")
        opened.wait_for_timeout(500)
        opened.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
