"""Pages as they open: what can be pressed stays in its place, and tables show whole texts.

A table is a drawing: its texts are what is drawn on it, each clipped to its cell and to
the window of the table.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.browsing import PAGES, expect_ready, expect_soon
from tests.e2e.conftest import PATIENCE_MS, Dashboard

pytestmark = pytest.mark.browser

# Pages that the usual tests open, at each width; the others are slow tests.
STEADY = {1280: ("Data", "Train", "Result", "Compare", "Predict"), 400: ("Compare", "Predict")}
WITH_TABLES = ("Data", "Train", "Result", "Compare", "Predict")
SCROLLING = ("Compare",)  # with more columns than a window has place for
# Headers that a window of 400 pixels shows without scrolling sideways.
ON_PHONE = {"Predict": ["gap (eV)", "interval (eV)"], "Compare": ["RMSE (eV)", "in 95 %"]}
SETTLED_MS = 2_000  # the last parts of the viewer are drawn after the page is ready
LARGEST_MOVE = 50  # pixels
# Records at every frame where the pressable elements of the main part are on the page, and of
# every text that is drawn on a table whether it is wider than the cell to which it is clipped.
_RECORD = """(() => {
    const places = new Map()
    window.pressable = places
    const pressed = 'button, a[href], input, summary, [role=slider], [role=tab]'
    const look = () => {
        const main = document.querySelector('[data-testid=stMain]')
        for (const e of main?.querySelectorAll(pressed) ?? []) {
            const box = e.getBoundingClientRect()
            const skipped = '[data-stale=true], [data-testid=stElementToolbar]'
            if (!box.width || e.closest(skipped) || !e.checkVisibility()) continue
            const y = box.top + main.scrollTop
            const {low, high} = places.get(e) ?? {low: y, high: y}
            const name = e.innerText || e.ariaLabel || e.tagName
            places.set(e, {low: Math.min(low, y), high: Math.max(high, y), name})
        }
        requestAnimationFrame(look)
    }
    requestAnimationFrame(look)

    const drawing = CanvasRenderingContext2D.prototype
    const {rect, fillText} = drawing
    window.tableTexts = new Map()
    drawing.rect = function (x, y, width, height) {
        this.cell = {left: x, right: x + width}
        return rect.call(this, x, y, width, height)
    }
    drawing.fillText = function (text, x, y) {
        const width = this.measureText(text).width
        const left = x - width * ({right: 1, end: 1, center: 0.5}[this.textAlign] ?? 0)
        const {left: start, right: end} = this.cell ?? {left: 0, right: Infinity}
        const isCut = left < start - 1 || left + width > end + 1
        const isBeyond = left + width > (this.canvas.clientWidth || Infinity)
        if (text.trim()) window.tableTexts.set(text, {isCut, isBeyond})
        return fillText.call(this, text, x, y)
    }
})()"""
_MOVES = """() => [...window.pressable]
    .filter(([e]) => e.isConnected && e.checkVisibility())
    .map(([, {name, low, high}]) => ({name: name.trim(), low, high}))"""
_TEXTS = "() => [...window.tableTexts].map(([text, state]) => ({text, ...state}))"


@pytest.fixture
def fresh_page(browser: Browser, width: int) -> Iterator[Page]:
    """Return a page of a browser that has loaded nothing of Streamlit yet."""
    with browser.new_context(viewport={"width": width, "height": 900}) as context:
        context.set_default_timeout(PATIENCE_MS)
        context.add_init_script(_RECORD)
        yield context.new_page()


@pytest.mark.parametrize(
    ("title", "width"),
    [
        pytest.param(title, width, marks=[] if title in titles else pytest.mark.slow)
        for width, titles in STEADY.items()
        for title in WITH_TABLES
    ],
)
def test_buttons_stay_in_place_and_tables_show_whole_texts(
    fresh_page: Page, dashboard: Dashboard, title: str, width: int
) -> None:
    fresh_page.goto(dashboard.at(PAGES[title], **dashboard.choices))
    expect_ready(fresh_page, title)
    fresh_page.wait_for_timeout(SETTLED_MS)
    elements: list[dict[str, Any]] = fresh_page.evaluate(_MOVES)
    assert len(elements) > 3
    moved = [e for e in elements if e["high"] - e["low"] > LARGEST_MOVE]
    assert moved == []
    if width == 1280:
        expect_whole_texts(fresh_page, scrolls=title in SCROLLING)
    else:
        expect_headers(fresh_page, ON_PHONE.get(title, []))


def expect_whole_texts(page: Page, *, scrolls: bool) -> None:
    """Wait until no text of a table is cut: a table draws itself again with its final widths.

    With `scrolls` a text may go beyond the window of its table.
    """

    def is_cut(entry: dict[str, Any]) -> bool:
        return bool(entry["isCut"] or (entry["isBeyond"] and not scrolls))

    texts: list[dict[str, Any]] = page.evaluate(_TEXTS)
    assert len(texts) > 10
    expect_soon(
        page,
        lambda: [entry["text"] for entry in page.evaluate(_TEXTS) if is_cut(entry)],
        lambda cut_texts: cut_texts == [],
    )


def expect_headers(page: Page, headers: list[str]) -> None:
    """Wait until the tables show these headers, each whole and inside the window of its table."""

    def hidden_headers() -> list[str]:
        texts = {entry["text"]: entry for entry in page.evaluate(_TEXTS)}
        return [
            name
            for name in headers
            if name not in texts or texts[name]["isCut"] or texts[name]["isBeyond"]
        ]

    expect_soon(page, hidden_headers, lambda names: names == [])
