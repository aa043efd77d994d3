"""Tables of the pages in the tour show whole texts in a window of 1,280 pixels.

A table is a drawing: the texts are what is drawn on it, each clipped to its cell.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.browsing import PAGES, expect_ready, expect_soon
from tests.e2e.conftest import PATIENCE_MS, Dashboard

pytestmark = pytest.mark.browser

WITH_TABLES = ("Home", "Data", "Train", "Predict")
# Records for every text that is drawn whether it is wider than the cell to which it is clipped.
_RECORD = """(() => {
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
        const isCut = this.cell && (left < this.cell.left - 1 || left + width > this.cell.right + 1)
        if (text.trim()) window.tableTexts.set(text, Boolean(isCut))
        return fillText.call(this, text, x, y)
    }
})()"""
_TEXTS = "() => [...window.tableTexts].map(([text, isCut]) => ({text, isCut}))"


@pytest.fixture
def recorded_page(browser: Browser) -> Iterator[Page]:
    """Return a page that records the texts of tables."""
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        context.set_default_timeout(PATIENCE_MS)
        context.add_init_script(_RECORD)
        yield context.new_page()


@pytest.mark.parametrize("title", WITH_TABLES)
def test_no_text_of_a_table_is_cut(recorded_page: Page, dashboard: Dashboard, title: str) -> None:
    recorded_page.goto(dashboard.at(PAGES[title], **dashboard.choices))
    expect_ready(recorded_page, title)
    expect_soon(
        recorded_page,
        lambda: len(recorded_page.evaluate(_TEXTS)),
        lambda n_texts: n_texts > 10,
    )
    # A table draws itself again when its columns have their widths.
    expect_soon(
        recorded_page,
        lambda: [entry["text"] for entry in recorded_page.evaluate(_TEXTS) if entry["isCut"]],
        lambda texts: texts == [],
    )
