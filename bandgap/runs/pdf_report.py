"""The report of a run as PDF, printed by an installed browser from the HTML.

Chromium, Chrome or Edge print a page without a window (`--headless --print-to-pdf`), with the
figures as vectors. Without such a browser there is no PDF.

The page comes from an address of this machine, as a page from a file may show other files. The
server of this address is the browser's proxy for all others, and refuses them.
"""

import contextlib
import http.server
import os
import secrets
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bandgap.foundation.browsers import find_browser
from bandgap.foundation.errors import InputError
from bandgap.foundation.replacement import write_whole

TIMEOUT_S: Final = 120.0
_DRAWING_MS: Final = 20_000  # virtual time that the scripts of the figures may take


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
    with (
        tempfile.TemporaryDirectory(prefix="bandgap-pdf-", ignore_cleanup_errors=True) as folder,
        _served(page.encode()) as (server, path),
    ):
        printed = Path(folder) / "report.pdf"
        command = [
            browser,
            "--headless",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--no-pdf-header-footer",
            f"--proxy-server={server}",
            "--proxy-bypass-list=<-loopback>",  # none, not even the addresses of this machine
            "--webrtc-ip-handling-policy=disable_non_proxied_udp",
            f"--user-data-dir={Path(folder) / 'profile'}",
            f"--virtual-time-budget={_DRAWING_MS}",
            f"--print-to-pdf={printed}",
        ]
        if hasattr(os, "geteuid") and os.geteuid() == 0:  # Chromium refuses its sandbox to root
            command.append("--no-sandbox")
        try:
            subprocess.run(
                [*command, server + path], capture_output=True, timeout=TIMEOUT_S, check=False
            )
            return printed.read_bytes()
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(
                f"{browser} did not print the report ({error}). Write it as .html, open it in a "
                "browser and print it."
            ) from error


@contextlib.contextmanager
def _served(page: bytes) -> Iterator[tuple[str, str]]:
    """Serve one page on this machine alone; yield the address of the server and the secret path.

    Every other request is refused, also those for other servers that it gets as a proxy.
    """
    path = f"/{secrets.token_urlsafe()}"

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.endswith(path):
                self.send_error(403)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", path
        finally:
            server.shutdown()


def write_pdf(page: str, out: Path) -> None:
    """Write an HTML page to a PDF file; raises InputError as `pdf_bytes`."""
    write_whole(out, pdf_bytes(page))
