"""The dashboard with finished runs in a browser.

Every page at two widths and in two themes with its findings by axe-core, use by keyboard, two
visitors, and address.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, WebSocket, expect

from tests.e2e.accessibility import expect_no_serious_findings, serious_findings
from tests.e2e.browsing import (
    PAGES,
    TOUR_KB,
    Stop,
    connections,
    expect_no_faint_texts,
    expect_ready,
    expect_run,
    expect_settled,
    expect_soon,
    expect_to_fit_the_window,
    faint_texts,
    mark_row_by_keys,
    page_height,
    picture,
    tab_to,
    tour_picture,
)
from tests.e2e.conftest import Dashboard, cancel_jobs, serving

pytestmark = pytest.mark.browser

WIDE = 1280
PHONE = 400
LINE = 40  # pixels
TALLEST_ON_PHONE = 2600  # pixels of a page as it opens
TOUR = {  # name of the picture in the README, and its first text
    "Data": ("tour-1-data", "Structures and their known band gaps"),
    "Train": ("tour-2-train", "Start another training"),
    "Result": ("tour-3-result", "held-out structures;"),
    "Predict": ("tour-4-predict", "structures predicted"),
}
DARK_ALWAYS = ("Home", "Data", "Result")  # the other pages in the dark theme are slow tests
RIDGE = "Ridge output layer, n = 60"
SHORT = {"Labelled structures": "20", "Warm-up iterations": "20", "Draws of each chain": "20"}


@pytest.fixture(scope="module")
def visited(visitor: BrowserContext, shared_dashboard: Dashboard) -> Iterator[Page]:
    """One page for all visits: what it has loaded of Streamlit and Plotly stays loaded."""
    with visitor.new_page() as page:
        page.set_viewport_size({"width": WIDE, "height": 900})
        page.goto(shared_dashboard.at(**shared_dashboard.choices))
        yield page


@pytest.mark.parametrize("title", list(PAGES))
def test_page_of_a_full_workspace_fits_both_widths_and_is_accessible(
    visited: Page, title: str
) -> None:
    name = PAGES[title] or "home"
    follow_link(visited, title)
    if title in TOUR:
        assert tour_picture(visited, *TOUR[title]) < TOUR_KB * 1000
    expect_to_fit(visited, name)


@pytest.mark.parametrize(
    "title",
    [
        title if title in DARK_ALWAYS else pytest.param(title, marks=pytest.mark.slow)
        for title in PAGES
    ],
)
def test_page_of_a_full_workspace_is_legible_in_the_dark_theme(visited: Page, title: str) -> None:
    follow_link(visited, title)
    expect_legible_in_the_dark(visited, PAGES[title] or "home")


def test_open_popover_is_legible_in_the_dark_theme(visited: Page) -> None:
    follow_link(visited, "Result")
    visited.emulate_media(color_scheme="dark")
    opener = visited.get_by_role("button", name="Figure and numbers").first
    opener.click()  # the pointer stays on it
    caption = visited.get_by_test_id("stPopoverBody").get_by_test_id("stCaptionContainer")
    expect(caption).to_be_visible()
    popover_texts = {"Figure and numbers", caption.inner_text()}
    expect_soon(
        visited,
        lambda: popover_texts & {*faint_texts(visited, least=4.5)},
        lambda texts: not texts,
    )
    expect_no_serious_findings(visited)
    visited.keyboard.press("Escape")


def test_home_of_an_empty_workspace_shows_what_comes_out_at_both_widths_and_in_the_dark(
    browser: Browser, tmp_path: Path
) -> None:
    with serving(tmp_path) as address, browser.new_context() as context:
        page = context.new_page()
        page.goto(address)
        expect_ready(page, "Home")
        for text in ("What comes out", "a model that learned from 200 gaps"):
            expect(page.get_by_text(text)).to_be_visible()
        expect(page.get_by_test_id("stBaseButton-primary")).to_have_count(1)
        icon = page.locator('link[rel~="icon"]').get_attribute("href") or ""
        assert icon.startswith(("data:", "/", "./", address)), f"{icon} is asked of another server"
        expect_to_fit(page, "home-empty")
        expect_legible_in_the_dark(page, "home-empty")
        page.set_viewport_size({"width": WIDE, "height": 400})
        expect_no_faint_texts(page)  # those below the window too, to which the page scrolls


def expect_to_fit(page: Page, name: str) -> None:
    """Take pictures of the page at both widths.

    It fits the window, its texts are legible, and axe-core has no serious finding.
    """
    picture(page, f"{name}-{WIDE}", width=WIDE)
    expect_no_faint_texts(page)
    expect_no_serious_findings(page)
    picture(page, f"{name}-{PHONE}", width=PHONE)
    expect_to_fit_the_window(page)
    expect_soon(page, lambda: page_height(page), lambda height: height <= TALLEST_ON_PHONE)


def expect_legible_in_the_dark(page: Page, name: str) -> None:
    """Take a picture in the dark theme, with legible texts and without a serious finding."""
    page.emulate_media(color_scheme="dark")
    picture(page, f"{name}-{WIDE}-dark", width=WIDE)
    expect_no_faint_texts(page)
    expect_no_serious_findings(page)


def follow_link(page: Page, title: str) -> None:
    page.set_viewport_size({"width": WIDE, "height": 900})
    page.emulate_media(color_scheme="light")
    link = page.get_by_role("link", name=title, exact=True)
    expect(link.or_(page.get_by_test_id("stExpandSidebarButton")).first).to_be_visible()
    if not link.is_visible():  # a narrow window has folded the navigation
        page.get_by_test_id("stExpandSidebarButton").click()
    link.click()
    expect_ready(page, title)


def test_finding_is_reported(visited: Page) -> None:
    # On the body, where a page that is drawn again does not remove it.
    visited.evaluate("() => document.body.append(new Image())")
    expect_soon(
        visited,
        lambda: serious_findings(visited),
        lambda findings: any("image-alt" in finding for finding in findings),
    )
    visited.evaluate("() => document.body.lastElementChild.remove()")


def test_main_job_is_done_by_the_keyboard_alone(page: Page, dashboard: Dashboard) -> None:
    sockets = connections(page)
    page.goto(dashboard.at())
    expect_settled(page, "Home")  # what is drawn before the focus later would be skipped
    stops = tab_to(page, page.get_by_role("button", name="Use the demo data"))
    expect_order(stops, ["Home", "Data", "Train", "Predict", "About", "Use the demo data"])
    page.keyboard.press("Enter")
    reading = page.get_by_text("Reading the demo crystals")
    expect(reading.or_(page.get_by_text("can be learned from")).first).to_be_visible()
    cancel_jobs(dashboard)  # the next part does not wait for it

    workspace, _ = dashboard.new_workspace(name="crystals")
    page.goto(dashboard.at(ws=workspace))
    expect_settled(page, "Home")
    tab_to(page, page.get_by_role("button", name="Train on these"))
    page.keyboard.press("Enter")
    expect_settled(page, "Train")
    stops = tab_to(page, page.get_by_label("Labelled structures", exact=True))
    replace_number(page, sockets[-1], SHORT["Labelled structures"])
    stops += tab_to(page, page.get_by_role("slider", name="Held out for the test"))
    page.keyboard.press("Home")
    expect(page.get_by_text("6 held out for the test")).to_be_visible()
    expect_ready(page, "Train")
    stops += tab_to(page, page.locator("summary", has_text="More settings"))
    page.keyboard.press("Enter")
    for label in ("Warm-up iterations", "Draws of each chain"):
        stops += tab_to(page, page.get_by_label(label, exact=True))
        replace_number(page, sockets[-1], SHORT[label])
    count, *lengths = SHORT
    expect_order(stops, ["Target data", "Source model", count, "Start training", *lengths])
    tab_to(page, page.get_by_role("button", name="Start training"), key="Shift+Tab")
    page.keyboard.press("Enter")
    forward = page.get_by_role("link", name="Predict new structures")
    expect(forward).to_be_visible()
    expect_settled(page, "Result")  # it opens by itself; Enter may be lost while it is drawn
    tab_to(page, forward)
    page.keyboard.press("Enter")
    expect_ready(page, "Predict")
    box = page.get_by_role("combobox", name="Structures")
    tab_to(page, box)
    page.keyboard.type("crystals")
    page.keyboard.press("Enter")
    expect(box).to_have_value("crystals")
    expect_ready(page, "Predict")
    tab_to(page, page.get_by_role("button", name="Predict", exact=True))


def test_row_of_a_table_is_marked_by_the_keyboard_alone(page: Page, dashboard: Dashboard) -> None:
    workspace, _ = dashboard.new_workspace(name="crystals")
    page.goto(dashboard.at("data", ws=workspace))
    expect_settled(page, "Data")
    shown_name = page.get_by_test_id("stMain").get_by_text(re.compile(r"^xtal-\d+ "))
    first = shown_name.inner_text()
    mark_row_by_keys(page, 2)
    expect(shown_name).not_to_have_text(first)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+Space")
    expect(shown_name).not_to_have_text(first)


def replace_number(page: Page, socket: WebSocket, text: str) -> None:
    """Type a number into the field, and wait for the run of the page that it causes."""
    page.keyboard.press("Control+a")
    page.keyboard.type(text)
    with expect_run(socket):
        page.keyboard.press("Enter")
    expect_ready(page, "Train")


def expect_order(stops: list[Stop], names: list[str]) -> None:
    """The names have this order; every stop is visible and not above or left of the previous."""
    remaining = iter(stop.name for stop in stops)
    missed = [name for name in names if not any(stop.startswith(name) for stop in remaining)]
    assert missed == [], [stop.name for stop in stops]
    assert [stop.name for stop in stops if not stop.in_view] == []
    inside = [stop for stop in stops if stop.inside]
    back = [(a.name, b.name) for a, b in pairwise(inside) if b.y < a.y - LINE and b.x <= a.x]
    assert back == [], "the focus jumps up the page"


def test_closed_page_comes_back_by_its_address(
    page: Page, browser: Browser, dashboard: Dashboard
) -> None:
    page.goto(dashboard.at("train", ws=dashboard.sample.id, run=dashboard.sample.runs[1]))
    title = page.get_by_role("heading", name=RIDGE, exact=True)
    expect(title).to_be_visible()
    address = page.url
    page.close()
    with browser.new_context() as context:
        again = context.new_page()
        again.goto(address)
        expect(again.get_by_role("heading", name=RIDGE, exact=True)).to_be_visible()
        expect(again.get_by_text("The training is finished after")).to_be_visible()
        again.get_by_role("link", name="See the result").click()
        expect(
            again.get_by_text("held-out structures to judge the run by")
            .or_(again.get_by_text("held-out structures;"))
            .first
        ).to_be_visible()
