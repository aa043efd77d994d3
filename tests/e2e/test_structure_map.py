"""The map of structures in a browser: computed by the worker, a click and a lasso select points."""

import math

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.browsing import expect_ready
from tests.e2e.conftest import Dashboard

pytestmark = pytest.mark.browser

SETTLED_MS = 800  # a figure follows its new size, and plotly the mouse


def test_click_shows_a_structure_and_lasso_lists_structures(
    page: Page, dashboard: Dashboard
) -> None:
    page.set_viewport_size({"width": 1280, "height": 2400})
    page.goto(dashboard.at("result", **dashboard.choices))
    expect_ready(page, "Result")
    page.get_by_text("Map", exact=True).click()
    page.get_by_role("button", name="Compute the map").click()
    expect(page.get_by_text("Click a point to see its structure")).to_be_visible()
    expect_ready(page, "Result")
    page.wait_for_timeout(SETTLED_MS)
    chart = page.get_by_test_id("stPlotlyChart").nth(1)
    click_point(page, chart.locator(".scatterlayer .point").nth(5))
    expect(page.get_by_text("Most alike:")).to_be_visible()

    chart.locator(".modebar-btn[data-title='Lasso Select']").click()
    box = chart.bounding_box()
    assert box is not None
    x, y, radius = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, 110.0
    page.mouse.move(x + radius, y)
    page.mouse.down()
    for step in range(1, 25):
        angle = 2 * math.pi * step / 24
        page.mouse.move(x + radius * math.cos(angle), y + radius * math.sin(angle))
    page.mouse.up()
    expect(page.get_by_text("selected; RMSE")).to_be_visible()


def click_point(page: Page, point: Locator) -> None:
    """Click a point after plotly has noticed the mouse over it."""
    box = point.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x - 3, y - 3)
    page.mouse.move(x, y)
    page.wait_for_timeout(SETTLED_MS)
    page.mouse.click(x, y)
