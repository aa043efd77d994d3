"""The viewer of structures in a browser with WebGL and in one without it."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserType, Page, expect

from tests.e2e.browsing import expect_ready, expect_soon, mark_row_by_keys
from tests.e2e.conftest import PATIENCE_MS, Server

pytestmark = pytest.mark.browser

SOFTWARE_GL = "--no-sandbox --use-angle=swiftshader --enable-unsafe-swiftshader"
# In a browser without WebGL both kinds of context are null.
NO_WEBGL = """
const original = HTMLCanvasElement.prototype.getContext
HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
    return kind.startsWith('webgl') ? null : original.call(this, kind, ...rest)
}
"""


@pytest.fixture(scope="module")
def with_webgl(
    browser_type: BrowserType, browser_type_launch_args: dict[str, object]
) -> Iterator[Browser]:
    """A browser that draws WebGL without a GPU."""
    arguments = {**browser_type_launch_args, "args": SOFTWARE_GL.split()}
    with browser_type.launch(**arguments) as browser:  # type: ignore[arg-type]
        yield browser


def opened(browser: Browser, server: Server, *, width: int = 1280, script: str = "") -> Page:
    """Return the page Data in a new window, after the viewer has drawn."""
    workspace, dataset = server.crystals
    context = browser.new_context(viewport={"width": width, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    if script:
        context.add_init_script(script)
    page = context.new_page()
    page.goto(server.at("data", ws=workspace, data=dataset))
    expect(page.locator(".box[data-drawn]")).to_be_visible()
    return page


def drawn_id(page: Page) -> str:
    return page.locator(".box").get_attribute("data-drawn") or ""


def test_atom_that_is_clicked_shows_its_site_and_bonds(with_webgl: Browser, server: Server) -> None:
    page = opened(with_webgl, server)
    box = page.locator(".box")
    box.scroll_into_view_if_needed()
    note = page.locator(".note")
    size = box.bounding_box()
    assert size is not None
    for k in range(400):
        x = 0.15 + 0.7 * (k % 25) / 24
        y = 0.25 + 0.5 * (k // 25) / 15
        box.click(position={"x": x * size["width"], "y": y * size["height"]})
        if "bonds to" in note.inner_text():
            break
    expect(note).to_contain_text("Å")


@pytest.mark.slow
def test_next_structure_and_more_cells_are_drawn_in_the_same_canvas(
    with_webgl: Browser, server: Server
) -> None:
    page = opened(with_webgl, server)
    warnings: list[str] = []
    page.on("console", lambda message: warnings.append(message.text))
    first = drawn_id(page)
    mark_row_by_keys(page, 2)
    expect(page.locator(".box")).not_to_have_attribute("data-drawn", first)
    second = drawn_id(page)
    page.get_by_label("Cells").select_option("2")
    expect(page.locator(".box")).not_to_have_attribute("data-drawn", second)
    expect(page.locator(".box")).to_have_attribute("data-drawn", re.compile("-2$"))
    for title in ("Train", "Data") * 9:
        page.get_by_role("link", name=title, exact=True).click()
        expect_ready(page, title)
    expect(page.locator(".box[data-drawn]")).to_be_visible()
    expect(page.locator(".box canvas")).to_have_count(1)
    assert [text for text in warnings if "Too many active WebGL" in text] == []


def test_viewer_fits_a_narrow_window(with_webgl: Browser, server: Server) -> None:
    page = opened(with_webgl, server, width=400)
    viewer = page.locator(".viewer")
    expect_soon(
        page,
        lambda: viewer.evaluate("e => [e.getBoundingClientRect()].map(r => [r.left, r.right])[0]"),
        lambda sides: 0 <= sides[0] < sides[1] <= 400,
    )
    expect(page.get_by_role("button", name="View along a")).to_be_visible()
    # Without a GPU the canvas has no more pixels than the window shows.
    canvas = viewer.locator("canvas")
    assert canvas.evaluate("e => e.width / e.clientWidth / devicePixelRatio") < 1.1


def test_browser_without_webgl_shows_a_picture_and_says_why(
    browser: Browser, server: Server
) -> None:
    page = opened(browser, server, script=NO_WEBGL)
    expect(page.get_by_text("This browser offers no WebGL")).to_be_visible()
    picture = page.locator(".box img")
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 640
    expect(page.get_by_role("button", name="Save as PNG")).to_be_disabled()
