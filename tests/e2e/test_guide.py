"""Documents of the page Guide in a browser: widths, links to headings, and links of help texts."""

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browsing import expect_ready, expect_soon, expect_to_fit_the_window
from tests.e2e.conftest import Server

pytestmark = pytest.mark.browser

WIDE = 1280
PHONE = 400
_SCROLLS = """() => [...document.querySelectorAll('table, pre, .katex-display')]
    .filter(e => e.scrollWidth > e.clientWidth + 1)
    .map(e => getComputedStyle(e).overflowX)"""


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("explanation/descriptors", "Descriptors"),
        ("explanation/methods/output-layer", "Transfer of the output layer"),
        ("how-to/service", "The service"),
    ],
)
def test_document_with_tables_formulas_and_code_fits_both_widths(
    page: Page, server: Server, name: str, title: str
) -> None:
    page.goto(f"{server.at('guide', ws=server.crystals[0])}&page={name}")
    expect_ready(page, title)
    for width in (WIDE, PHONE):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(300)  # the layout follows the new size
        expect_to_fit_the_window(page)
    expect(page.locator(".katex-error")).to_have_count(0)
    expect_soon(page, lambda: page.evaluate(_SCROLLS), lambda styles: set(styles) == {"auto"})


def test_links_of_the_guide_lead_to_a_heading_and_back(page: Page, server: Server) -> None:
    page.set_viewport_size({"width": WIDE, "height": 900})
    page.goto(server.at("guide", ws=server.crystals[0]))
    expect_ready(page, "Guide")
    page.get_by_role("link", name="Three kinds of intervals").click()
    expect_ready(page, "Three kinds of intervals")
    page.get_by_role("link", name="domain", exact=True).click()
    expect_ready(page, "CSV columns")
    expect(page.locator("#domain")).to_be_in_viewport()
    page.wait_for_function("document.querySelector('[data-testid=stMain]').scrollTop > 500")
    page.go_back()
    expect_ready(page, "Three kinds of intervals")
