"""Pages of a full workspace by the rules of axe-core, in both themes: no serious finding."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page

from tests.e2e.browsing import PAGES, expect_ready, expect_soon
from tests.e2e.conftest import Dashboard

pytestmark = pytest.mark.browser

AXE = Path(__file__).with_name("axe") / "axe.min.js"
_SERIOUS = """() => axe.run(document, {resultTypes: ['violations']}).then(({violations}) =>
    violations.filter(({impact}) => impact === 'serious' || impact === 'critical')
        .flatMap(({id, nodes}) => nodes.map(node => {
            const {message} = [...node.any, ...node.all, ...node.none][0] ?? {}
            return `${id}: ${node.html.slice(0, 120)} ${message}`
        })))"""


@pytest.fixture(scope="module")
def visited(visitor: BrowserContext, dashboard: Dashboard) -> Iterator[Page]:
    """One page for all visits: what it has loaded of Streamlit and Plotly stays loaded."""
    with visitor.new_page() as page:
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(dashboard.at(**dashboard.choices))
        expect_ready(page, "Home")
        yield page


def serious_findings(page: Page) -> list[str]:
    """Return the elements of a page with a serious or critical finding."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    findings: list[str] = page.evaluate(_SERIOUS)
    return findings


@pytest.mark.parametrize("title", list(PAGES))
def test_page_has_no_serious_finding_in_either_theme(visited: Page, title: str) -> None:
    for scheme in ("light", "dark"):
        visited.emulate_media(color_scheme=scheme)
        if scheme == "light":
            visited.get_by_role("link", name=title, exact=True).click()
            expect_ready(visited, title)
        # Findings that last: colours change over some frames, and drawings appear late.
        expect_soon(visited, lambda: serious_findings(visited), lambda findings: findings == [])


def test_finding_is_reported(visited: Page) -> None:
    # On the body, where a page that is drawn again does not remove it.
    visited.evaluate("() => document.body.append(new Image())")
    expect_soon(
        visited,
        lambda: serious_findings(visited),
        lambda findings: any("image-alt" in finding for finding in findings),
    )
