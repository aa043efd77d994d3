"""Helpers of the browser tests: addresses, waiting for a page, screenshots and the keyboard."""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlencode

from PIL import Image, ImageChops
from playwright.sync_api import Locator, Page, WebSocket, expect
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

PAGES = {
    "Home": "",
    "Data": "data",
    "Train": "train",
    "Result": "result",
    "Compare": "compare",
    "Predict": "predict",
    "Guide": "guide",
    "Source models": "sources",
    "Propose": "propose",
    "About": "about",
}
ARTIFACTS = Path(__file__).resolve().parents[2] / "artifacts" / "screenshots"
TALLEST = 8000  # largest height in pixels of a picture of a page
TOUR_WIDTH = 1120
TOUR_HEIGHT = 860
TOUR_KB = 60  # of one picture in the README

_READY = """() => {
    const app = document.querySelector('[data-testid=stApp]')
    const charts = [...document.querySelectorAll('[data-testid=stPlotlyChart]')]
        .filter(chart => chart.offsetParent)
    return app?.dataset.testScriptState === 'notRunning'
        && app?.dataset.testConnectionState === 'CONNECTED'
        && !document.querySelector('[data-testid=stSkeleton], [data-stale=true]')
        && charts.every(chart => chart.querySelector('.main-svg'))
}"""
# How much wider than the window the page and its main part are.
_WIDER = """() => [document.documentElement, document.querySelector('[data-testid=stMain]')]
    .map(e => e.scrollWidth - e.clientWidth)"""
_HEIGHT = """() => {
    const main = document.querySelector('[data-testid=stMain]')
    return main.scrollHeight + innerHeight - main.clientHeight
}"""


_FAINT = """least => {
    const scale = text => text.startsWith('color(srgb') ? [255, 255, 255, 1] : [1, 1, 1, 1]
    const numbers = text => (text.match(/[\\d.]+/g) || []).map((x, k) => x * scale(text)[k])
    const over = ([r, g, b, a = 1], under) => [r, g, b].map((x, k) => a * x + (1 - a) * under[k])
    const linear = x => x / 255 <= 0.04045 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4
    const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
    const covers = (e, y) =>
        e.getBoundingClientRect().top <= y && y <= e.getBoundingClientRect().bottom
    const paint = (e, y) =>
        covers(e, y) ? numbers(getComputedStyle(e).backgroundColor) : [0, 0, 0, 0]
    // Below the window nothing of the page's background covers a text until the visitor scrolls.
    const page = numbers(getComputedStyle(document.querySelector('[data-testid=stApp]'))
        .backgroundColor)
    const behind = (e, y) => e ? over(paint(e, y), behind(e.parentElement, y)) : page
    const skipped = 'script, style, canvas, [disabled], :disabled'
    const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    while (walker.nextNode()) {
        const e = walker.currentNode.parentElement
        const style = getComputedStyle(e)
        const box = e.getBoundingClientRect()
        const seen = e.checkVisibility({opacityProperty: true, visibilityProperty: true})
            && box.width > 2
        if (!walker.currentNode.data.trim() || !seen || e.closest(skipped)) continue
        const ground = behind(e, (box.top + box.bottom) / 2)
        const colour = over(numbers(e.closest('svg') ? style.fill : style.color), ground)
        const [low, high] = [light(colour), light(ground)].sort((a, b) => a - b)
        if ((high + 0.05) / (low + 0.05) < least) found.push(walker.currentNode.data.trim())
    }
    return found
}"""


def address_of(server: str, page: str = "", **choices: str) -> str:
    """Return the address of a page with these choices in it."""
    return f"{server}/{page}?{urlencode(choices)}"


def folder() -> Path:
    """Return the folder for pictures and figures of a test run, which BANDGAP_SCREENSHOTS names."""
    path = Path(os.environ.get("BANDGAP_SCREENSHOTS") or ARTIFACTS)
    path.mkdir(parents=True, exist_ok=True)
    return path


LOOKS = 5  # at the focus, before it counts as invisible
PATIENT_LOOKS = 60  # at a page, before it counts as wrong; 30 s and the time of the looks
T = TypeVar("T")


def expect_ready(page: Page, title: str) -> None:
    """Wait for a page's title and for all of its figures; there is no error of the script on it."""
    error = page.get_by_test_id("stException")
    expect(page.get_by_role("heading", level=1, name=title, exact=True).or_(error)).to_be_visible()
    expect(error).to_have_count(0)
    page.wait_for_function(_READY, polling=100)
    expect(error).to_have_count(0)


def expect_settled(page: Page, title: str) -> None:
    """Wait for a new page and for the run that the first report of the browser causes.

    A click that comes while that run replaces the page may be lost.
    """
    expect_ready(page, title)
    page.wait_for_timeout(1000)
    expect_ready(page, title)


def connections(page: Page) -> list[WebSocket]:
    """Return a list of the connections that a page opens from now on, to which each is added."""
    sockets: list[WebSocket] = []

    def add(socket: WebSocket) -> None:
        sockets.append(socket)

    page.on("websocket", add)
    return sockets


@contextmanager
def expect_run(socket: WebSocket) -> Iterator[None]:
    """Wait until a run that this context causes has ended, as the server says.

    The page may never show that it runs: where start and end of a run arrive together, as on a busy
    machine, it is drawn after both.
    """

    def is_end(message: str | bytes) -> bool:
        assert isinstance(message, bytes)
        return ForwardMsg.FromString(message).WhichOneof("type") == "script_finished"

    with socket.expect_event("framereceived", is_end):
        yield


def expect_soon(page: Page, look: Callable[[], T], condition: Callable[[T], bool]) -> None:
    """Look at a page until a condition holds; a busy machine draws late."""
    for _ in range(PATIENT_LOOKS):
        value = look()
        if condition(value):
            return
        page.wait_for_timeout(500)
    raise AssertionError(f"after {PATIENT_LOOKS} looks at {page.url}: {value}")


def expect_no_faint_texts(page: Page) -> None:
    """Wait until every text has enough contrast."""
    expect_soon(page, lambda: faint_texts(page), lambda texts: texts == [])


def expect_to_fit_the_window(page: Page) -> None:
    """Wait until the page is not wider than the window."""
    expect_soon(page, lambda: page.evaluate(_WIDER), lambda wider: wider == [0, 0])


def page_height(page: Page) -> int:
    """Return the height in pixels of the whole page at the present width of the window."""
    height: int = page.evaluate(_HEIGHT)
    return height


def faint_texts(page: Page, *, least: float = 3.0) -> list[str]:
    """Return texts whose contrast to the background is below `least` (WCAG 2.2, 1.4.3)."""
    texts: list[str] = page.evaluate(_FAINT, least)
    return texts


def picture(page: Page, name: str, *, width: int) -> None:
    """Keep a picture of the whole page at this width, which stays the page's width."""
    page.set_viewport_size({"width": width, "height": 900})
    page.set_viewport_size(
        {"width": width, "height": min(max(900, page.evaluate(_HEIGHT)), TALLEST)}
    )
    page.wait_for_timeout(300)  # figures follow the new size
    page.screenshot(path=folder() / f"{name}.png", animations="disabled")


def tour_picture(page: Page, name: str, begins: str) -> int:
    """Keep a picture of a page from this text on, with few colours, and return its bytes."""
    page.set_viewport_size({"width": TOUR_WIDTH, "height": TOUR_HEIGHT})
    page.get_by_text(begins).first.evaluate("e => e.scrollIntoView({block: 'start'})")
    # The part that the header of the page covers.
    page.get_by_test_id("stMain").evaluate("e => e.scrollBy(0, -64)")
    page.wait_for_timeout(500)  # figures follow the new size
    image = Image.open(io.BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
    path = folder() / f"{name}.png"
    image.quantize(96, dither=Image.Dither.NONE).save(path, optimize=True)
    return path.stat().st_size


@dataclass(frozen=True)
class Stop:
    """An element that received the focus: its name and its position on the page in pixels."""

    name: str
    x: float
    y: float
    inside: bool  # in the main part of the page, not in the navigation
    in_view: bool  # of the window


_STOP = """() => {
    let e = document.activeElement
    const main = document.querySelector('[data-testid=stMain]')
    const label = e.labels?.[0]?.innerText || e.getAttribute('aria-label') || e.innerText
    const words = e === main ? 'main part' : label
    const name = (words || e.tagName).trim().split('\\n').at(-1)
    const inside = main.contains(e) && e !== main
    let r = e.getBoundingClientRect()
    while (r.width * r.height < 150 && e.parentElement) {
        e = e.parentElement
        r = e.getBoundingClientRect()
    }
    return {name, inside, x: r.x, y: r.y, width: r.width, height: r.height,
            scrolled: main.scrollTop,
            in_view: r.bottom > 0 && r.top < innerHeight && r.right > 0 && r.left < innerWidth}
}"""


def tab_to(
    page: Page, target: Locator, *, key: Literal["Tab", "Shift+Tab"] = "Tab", most: int = 120
) -> list[Stop]:
    """Press the key until the target has the focus and is visible; return all focused elements."""
    stops = []
    for _ in range(most):
        page.keyboard.press(key)
        focused = page.evaluate(_STOP)
        below = focused["y"] + focused["scrolled"]
        stops.append(
            Stop(focused["name"], focused["x"], below, focused["inside"], focused["in_view"])
        )
        if target.evaluate("e => e === document.activeElement"):
            assert focus_is_visible(page), (
                f"nothing on the page shows that {focused['name']} has the focus"
            )
            return stops
    raise AssertionError(
        f"{most} presses of {key} do not come to {target}; they came to "
        f"{[stop.name for stop in stops]}"
    )


def mark_row_by_keys(page: Page, row: int) -> None:
    """Mark a row, counted from 1, of the first table of the page, by keys alone."""
    tab_to(page, page.get_by_test_id("data-grid-canvas").first)
    for _ in range(row):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+Space")


def focus_is_visible(page: Page, *, margin: float = 10.0) -> bool:
    """Return whether the focused element looks different from the same one without focus."""

    def look(box: dict[str, Any]) -> Image.Image:
        page.wait_for_timeout(150)  # colours change over some frames
        x = max(box["x"] - margin, 0.0)
        y = max(box["y"] - margin, 0.0)
        clip = {
            "x": x,
            "y": y,
            "width": box["width"] + 2 * margin,
            "height": box["height"] + 2 * margin,
        }
        return Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("RGB")

    for _ in range(LOOKS):  # a busy machine paints late, and what folds out still moves
        place = page.evaluate(_STOP)
        focused = look(place)
        page.evaluate("() => { window.kept = document.activeElement; window.kept.blur() }")
        blurred = look(place)
        page.evaluate("() => window.kept.focus({preventScroll: true, focusVisible: true})")
        if ImageChops.difference(focused, blurred).getbbox() is not None:
            return True
    return False
