"""Pages in headless Chromium; where there is none, these tests skip with that reason."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from report import stores

ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--no-first-run")  # fmt: skip


@dataclass
class Opened:
    """A page, with all that it said and asked for."""

    page: Page
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("needs Chromium: shutil.which('chromium') finds none (.ci/run installs it)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


def open_page(browser: Browser, path: Path, **options: object) -> Opened:
    page = browser.new_context(**options).new_page()  # type: ignore[arg-type]
    opened = Opened(page)
    page.on("console", lambda message: opened.said.append(message.text))
    page.on("pageerror", lambda error: opened.said.append(str(error)))
    page.on("request", lambda request: opened.asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready]")
    return opened


@pytest.fixture(scope="session")
def page_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stores.page_of_two(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def opened(chromium: Browser, page_path: Path) -> Opened:
    """The page of two runs on a desk; tests leave it as they like."""
    return open_page(chromium, page_path, viewport={"width": 1280, "height": 900})
