"""What the browser tests share: addresses, waiting for a page that is ready, pictures of it, and the keyboard."""

import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from PIL import Image, ImageChops
from playwright.sync_api import Locator, Page, expect

PAGES = {
    "Home": "",
    "Data": "data",
    "Source models": "sources",
    "Train": "train",
    "Compare": "compare",
    "Posterior": "posterior",
    "Calibration": "calibration",
    "Predict": "predict",
    "About": "about",
}
ARTIFACTS = Path(__file__).resolve().parents[2] / "artifacts" / "screenshots"
TALLEST = 4000  # pixels of a picture of a whole page
TOUR_KB = 60  # of one picture in the README

_READY = """() => {
    const app = document.querySelector('[data-testid=stApp]')
    const charts = [...document.querySelectorAll('[data-testid=stPlotlyChart]')].filter(c => c.offsetParent)
    return app?.dataset.testScriptState === 'notRunning' && app?.dataset.testConnectionState === 'CONNECTED'
        && !document.querySelector('[data-testid=stSkeleton], [data-stale=true]')
        && charts.every(chart => chart.querySelector('.main-svg'))
}"""
_HEIGHT = """() => {
    const main = document.querySelector('[data-testid=stMain]')
    return main.scrollHeight + innerHeight - main.clientHeight
}"""


def address_of(server: str, page: str = "", **choices: str) -> str:
    """Return the address of a page with these choices in it."""
    return f"{server}/{page}?{urlencode(choices)}"


def folder() -> Path:
    """Return the folder for pictures and figures of a test run, which BANDGAP_SCREENSHOTS names."""
    path = Path(os.environ.get("BANDGAP_SCREENSHOTS") or ARTIFACTS)
    path.mkdir(parents=True, exist_ok=True)
    return path


def expect_ready(page: Page, title: str) -> None:
    """Wait for a page's title and for all of its figures; there is no error of the script on it."""
    expect(page.get_by_role("heading", level=1, name=title, exact=True)).to_be_visible()
    page.wait_for_function(_READY)
    expect(page.get_by_test_id("stException")).to_have_count(0)


def picture(page: Page, name: str, *, width: int) -> None:
    """Keep a picture of the whole page at this width, which stays the page's width."""
    page.set_viewport_size({"width": width, "height": 900})
    page.set_viewport_size({"width": width, "height": min(max(900, page.evaluate(_HEIGHT)), TALLEST)})
    page.wait_for_timeout(300)  # figures follow the new size
    page.screenshot(path=folder() / f"{name}.png", animations="disabled")


def tour_picture(page: Page, name: str) -> int:
    """Keep a small picture of what is in view, with few colours, and return its bytes."""
    image = Image.open(io.BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
    path = folder() / f"{name}.png"
    image.quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)
    return path.stat().st_size


@dataclass(frozen=True)
class Stop:
    """One element that the Tab key came to: its name and where it lies in the window, in pixels."""

    name: str
    x: float
    y: float
    inside: bool  # in the main part of the page, not in the navigation
    in_view: bool


_STOP = """() => {
    let e = document.activeElement
    const name = e.labels?.[0]?.innerText || e.getAttribute('aria-label') || e.innerText || e.tagName
    const inside = !!e.closest('[data-testid=stMain]')
    let r = e.getBoundingClientRect()
    while (r.width * r.height < 150 && e.parentElement) { e = e.parentElement; r = e.getBoundingClientRect() }
    return {name: name.trim(), x: r.x, y: r.y, width: r.width, height: r.height, inside,
            in_view: r.bottom > 0 && r.top < innerHeight && r.right > 0 && r.left < innerWidth}
}"""


def tab_to(page: Page, target: Locator, *, most: int = 120) -> list[Stop]:
    """Press Tab until the target has the focus, which is then seen; return all stops on the way."""
    stops = []
    for _ in range(most):
        page.keyboard.press("Tab")
        found = page.evaluate(_STOP)
        stops.append(Stop(*(found[key] for key in ("name", "x", "y", "inside", "in_view"))))
        if target.evaluate("e => e === document.activeElement"):
            assert focus_is_visible(page, found), f"nothing on the page shows that {found['name']} has the focus"
            return stops
    raise AssertionError(f"{most} presses of Tab do not come to {target}; they came to {[stop.name for stop in stops]}")


def focus_is_visible(page: Page, box: dict[str, Any], *, margin: float = 10.0) -> bool:
    """Return whether the page looks different around the focused element than it does without the focus."""
    x, y = max(box["x"] - margin, 0.0), max(box["y"] - margin, 0.0)
    clip = {"x": x, "y": y, "width": box["width"] + 2 * margin, "height": box["height"] + 2 * margin}

    def look() -> Image.Image:
        page.wait_for_timeout(150)  # colours change over some frames
        return Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("RGB")  # type: ignore[arg-type]

    focused = look()
    page.evaluate("() => { window.kept = document.activeElement; window.kept.blur() }")
    blurred = look()
    page.evaluate("() => window.kept.focus({preventScroll: true, focusVisible: true})")
    return ImageChops.difference(focused, blurred).getbbox() is not None
