"""The page as a reader meets it."""

import pytest
from playwright.sync_api import Locator, Page, expect

from anisoscope.claims import Verdict
from anisoscope.report import RunRows, write_page
from anisoscope.report.page import render
from anisoscope.store import METRICS, REPLICATES
from anisoscope.store.schema import table

from .conftest import open_page


def test_every_chart_is_drawn(opened):
    charts = opened.page.locator(".chart")
    assert charts.count() == 8
    for at in range(charts.count()):
        chart = charts.nth(at)
        assert chart.get_attribute("data-drawn") == "yes"
        assert chart.locator("svg.marks path, svg.marks text").count() > 10
        assert chart.bounding_box()["width"] > 300


def test_nothing_is_said_and_nothing_is_asked_for(opened, page_path):
    assert opened.said == []
    assert opened.asked == [page_path.as_uri()]


def test_hostile_names_stay_text(opened):
    page = opened.page
    assert page.evaluate("window.pwned") is None
    assert page.locator("script").count() == 3
    assert page.locator("img").count() == 0
    labels = page.locator("#map-0 svg text").all_text_contents()
    assert any(label.endswith("</script>") for label in labels)


def test_a_tooltip_names_value_interval_and_number(opened):
    page = opened.page
    page.locator("#map-0").scroll_into_view_if_needed()
    cell = page.locator("#map-0 svg .mark-rect path").first.bounding_box()
    page.mouse.move(cell["x"] + cell["width"] / 3, cell["y"] + cell["height"] / 3)
    tooltip = page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    said = tooltip.inner_text()
    for part in ("<script>window.pwned=1</script>", "times chance", " to ", "tokens"):
        assert part in said
    assert page.evaluate("window.pwned") is None
    assert page.evaluate("getComputedStyle(document.querySelector('#vg-tooltip-element')).position") == "fixed"


def bold(page: Page, place: int) -> Locator:
    """The measurement in the capture curve of a run: the only bold line."""
    return page.locator(f"#curve-{place} svg path[stroke-width='3']")


def test_the_slider_moves_both_curves_and_the_menu_chooses_the_layer(opened):
    page = opened.page
    slider, said = page.locator("#curve input[type=range]"), page.locator("#curve output")
    last = [bold(page, place).get_attribute("d") for place in (0, 1)]
    slider.focus()
    page.keyboard.press("Home")
    assert said.inner_text() == slider.get_attribute("aria-valuetext") == "step 0"
    for place in (0, 1):
        expect(bold(page, place)).not_to_have_attribute("d", last[place])
    first = [bold(page, place).get_attribute("d") for place in (0, 1)]
    page.locator("#curve select").select_option(index=0)
    expect(bold(page, 0)).not_to_have_attribute("d", first[0])
    page.keyboard.press("End")


def test_play_steps_through_training(opened):
    page = opened.page
    page.locator("#curve button").click()
    expect(page.locator("#curve output")).to_have_text("step 10")
    page.locator("#curve button", has_text="Pause").click()
    assert page.locator("#curve button").inner_text() == "Play"


def test_a_line_opens_to_its_evidence_by_keyboard(opened):
    verdict = opened.page.locator("details.verdict").nth(1)
    evidence = verdict.locator(".evidence")
    assert not evidence.is_visible()
    verdict.locator("summary").press("Enter")
    assert evidence.is_visible()
    assert "sampled labels" in evidence.locator("table").inner_text()
    assert evidence.locator("rect.amount").first.bounding_box()["width"] > 20


def test_paper_shows_what_is_closed_on_the_screen(opened):
    page = opened.page
    closed = page.locator("details:not([open])").count()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() == closed > 0


@pytest.mark.parametrize("width", [390, 800, 1280])
def test_no_width_scrolls_sideways_and_dark_is_dark(chromium, page_path, width):
    opened = open_page(chromium, page_path, viewport={"width": width, "height": 800}, color_scheme="dark")
    page = opened.page
    assert page.evaluate("document.documentElement.scrollWidth") == width
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark == "rgb(21, 24, 28)"
    assert bold(page, 0).evaluate("e => getComputedStyle(e).stroke") == "rgb(98, 181, 246)"
    assert opened.said == []
    page.context.close()


def test_the_policy_stops_what_escaping_would_miss(chromium, tmp_path):
    """The second wall, tried by taking the first away."""
    nothing = RunRows("a", {}, table([], METRICS), table([], REPLICATES))
    text = render([nothing], [Verdict("MARK", "", "inconclusive", runs=("a",))])
    attack = "<script>window.pwned=1</script><img src='https://example.com/x.png' onerror='window.pwned=2'>"
    (tmp_path / "page.html").write_text(text.replace("MARK", attack), encoding="utf-8")
    opened = open_page(chromium, tmp_path / "page.html")
    assert opened.page.evaluate("window.pwned") is None
    assert opened.page.locator("script").count() > 3
    assert any("Content Security Policy" in line for line in opened.said)
    opened.page.context.close()


def test_a_page_with_nothing_to_draw_is_silent(chromium, tmp_path):
    opened = open_page(chromium, write_page([], [], tmp_path / "page.html"))
    assert opened.said == []
    assert opened.page.locator("h1").is_visible()
    opened.page.context.close()
