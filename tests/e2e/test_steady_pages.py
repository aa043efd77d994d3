"""What the browser draws late has its height from the beginning, so that buttons do not move."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.browsing import PAGES, expect_ready
from tests.e2e.conftest import PATIENCE_MS, Dashboard

pytestmark = pytest.mark.browser

STEADY = ("Home", "Data", "Train", "Result", "Predict")
SETTLED_MS = 3_000  # the last parts of the viewer are drawn after the page is ready
# Streamlit loads the code of each kind of field when the first one is drawn, with a bar of 37
# pixels in its place; several of them may move a button by this sum at most.
LARGEST_MOVE = 120  # pixels
# Records at every frame where the pressable elements of the main part are on the page.
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
            const place = places.get(e) ?? {first: y}
            places.set(e, {...place, last: y, name: (e.innerText || e.ariaLabel || e.tagName)})
        }
        requestAnimationFrame(look)
    }
    requestAnimationFrame(look)
})()"""
_MOVES = """() => [...window.pressable]
    .filter(([e]) => e.isConnected && e.checkVisibility())
    .map(([, {name, first, last}]) => ({name: name.trim(), first, last}))"""


@pytest.fixture(params=[1280, 400])
def fresh_page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    """Return a page of a browser that has loaded nothing of Streamlit yet."""
    with browser.new_context(viewport={"width": request.param, "height": 900}) as context:
        context.set_default_timeout(PATIENCE_MS)
        context.add_init_script(_RECORD)
        yield context.new_page()


@pytest.mark.parametrize("title", STEADY)
def test_nothing_that_can_be_pressed_moves_far_after_it_is_drawn(
    fresh_page: Page, dashboard: Dashboard, title: str
) -> None:
    fresh_page.goto(dashboard.at(PAGES[title], **dashboard.choices))
    expect_ready(fresh_page, title)
    fresh_page.wait_for_timeout(SETTLED_MS)
    elements: list[dict[str, Any]] = fresh_page.evaluate(_MOVES)
    assert len(elements) > 3
    moved = [e for e in elements if abs(e["last"] - e["first"]) > LARGEST_MOVE]
    assert moved == []
