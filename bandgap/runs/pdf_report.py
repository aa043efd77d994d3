"""The report of a run as PDF, printed by an installed browser from the HTML.

Chromium, Chrome or Edge print a page without a window (`--headless --print-to-pdf`), with the
figures as vectors. Without such a browser there is no PDF.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from bandgap.foundation.errors import InputError
from bandgap.foundation.replacement import write_whole

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
TIMEOUT_S: Final = 120.0
_DRAWING_MS: Final = 20_000  # virtual time that the scripts of the figures may take


def find_browser() -> str | None:
    """Return the path of a browser that prints pages to PDF, None where none is installed."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def pdf_bytes(page: str) -> bytes:
    """Return an HTML page as PDF.

    Raises InputError where no browser is installed, and where it does not print the page.
    """
    browser = find_browser()
    if browser is None:
        raise InputError(
            "No browser that prints to PDF is installed (Chromium, Chrome or Edge). Write the "
            "report as .html, open it in any browser and print it."
        )
    with tempfile.TemporaryDirectory(prefix="bandgap-pdf-", ignore_cleanup_errors=True) as folder:
        source = Path(folder) / "report.html"
        printed = Path(folder) / "report.pdf"
        source.write_text(page, encoding="utf-8")
        command = [
            browser,
            "--headless",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--no-pdf-header-footer",
            f"--user-data-dir={Path(folder) / 'profile'}",
            f"--virtual-time-budget={_DRAWING_MS}",
            f"--print-to-pdf={printed}",
        ]
        if hasattr(os, "geteuid") and os.geteuid() == 0:  # Chromium refuses its sandbox to root
            command.append("--no-sandbox")
        try:
            subprocess.run(
                [*command, source.as_uri()], capture_output=True, timeout=TIMEOUT_S, check=False
            )
            return printed.read_bytes()
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(
                f"{browser} did not print the report ({error}). Write it as .html, open it in a "
                "browser and print it."
            ) from error


def write_pdf(page: str, out: Path) -> None:
    """Write an HTML page to a PDF file; raises InputError as `pdf_bytes`."""
    write_whole(out, pdf_bytes(page))
