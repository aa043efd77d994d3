"""An installed browser that prints pages and exports figures without a window."""

import shutil
from typing import Final

BROWSERS: Final = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "msedge",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe",
    "C:\\Program Files (x86)\\Microsoft\\Edge\\Application\\msedge.exe",
)


def find_browser() -> str | None:
    """Return the path of a browser that prints and exports, None where none is installed."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)
