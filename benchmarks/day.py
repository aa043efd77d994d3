"""A new user in the dashboard: clicks and seconds from the printed address to a prediction.

A journey is what a user presses and chooses, in Chromium; nothing is read but what the page shows.
Choosing files counts as two clicks: one opens the dialog of the system, one confirms it.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

from bandgap.foundation.errors import BandgapError, InputError
from bandgap.jobs.dashboard import free_port

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

FLAGS = (
    "--no-sandbox --disable-dev-shm-usage --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
).split()
CHECKOUT = Path(__file__).resolve().parents[1]
HEIGHT = 900  # pixels of the window
SHORT_MS = 120_000  # for a page
LONG_MS = 3_600_000  # for a job
SETTLED_MS = 1_500  # after a step, before a picture of the page
LEARNED = "have a gap and can be learned from"
TOLD = re.compile(r"^About \d.*\.\s*$")  # the time that the page Train says before the start


@dataclass(frozen=True)
class Step:
    """What the user did or saw, after how many clicks and seconds."""

    text: str
    clicks: int
    seconds: float


@dataclass
class Visitor:
    """A user with a browser, whose clicks are counted.

    Attributes
    ----------
    page
        The page of the browser.
    pictures
        Folder for a picture of the whole page after each step, None for no pictures.
    name
        Beginning of the names of the pictures.
    steps
        The steps so far.
    """

    page: "Page"
    pictures: Path | None = None
    name: str = "day"
    steps: list[Step] = field(default_factory=list)
    _clicks: int = 0
    _started: float = field(default_factory=time.perf_counter)

    def open(self, address: str) -> None:
        """Open an address; the time begins."""
        self._started = time.perf_counter()
        self.page.set_default_timeout(SHORT_MS)
        self.page.goto(address)

    def press(self, name: str) -> None:
        """Press the button or the link of this name."""
        pattern = re.compile(rf"(^|\s){re.escape(name)}$")  # an icon may be before it
        button = self.page.get_by_role("button", name=pattern)
        link = self.page.get_by_role("link", name=pattern)
        main = self.page.get_by_test_id("stMain")
        main.locator(button.or_(link)).first.click()
        self._did(f"press {name!r}", clicks=1)

    def choose_files(self, *paths: Path) -> None:
        """Choose files in the uploader that the page shows first."""
        uploader = self.page.locator("[data-testid=stFileUploader]:visible input[type=file]").first
        uploader.set_input_files(list(paths))
        self.page.get_by_text(paths[-1].name, exact=True).first.wait_for()
        names = ", ".join(path.name for path in paths)
        self._did(f"choose {names}", clicks=2)

    def download(self, name: str) -> Path:
        """Press a button and wait for its file."""
        with self.page.expect_download(timeout=LONG_MS) as download:
            self.press(name)
        path = download.value.path()
        self._did(f"got {download.value.suggested_filename}")
        return path

    def see(self, text: str | re.Pattern[str], *, timeout_ms: int = LONG_MS) -> None:
        """Wait until the page shows a text.

        Raises BandgapError where the page shows an error instead.
        """
        error = self.page.get_by_test_id("stException").or_(
            self.page.locator("[data-testid=stAlertContentError]")
        )
        place = self.page.get_by_text(text).first
        self._first_of(place, error.first, timeout_ms)
        if error.count():
            raise BandgapError(f"{self.page.url}: {error.first.inner_text()}")
        self._did(f"see {place.inner_text() if isinstance(text, re.Pattern) else text!r}")

    def _first_of(self, expected: "Locator", error: "Locator", timeout_ms: int) -> None:
        expected.or_(error).first.wait_for(timeout=timeout_ms)

    @property
    def clicks(self) -> int:
        """Clicks so far."""
        return self._clicks

    @property
    def seconds(self) -> float:
        """Seconds until the last step."""
        return self.steps[-1].seconds if self.steps else 0.0

    def _did(self, text: str, *, clicks: int = 0) -> None:
        self._clicks += clicks
        seconds = time.perf_counter() - self._started
        self.steps.append(Step(text, self._clicks, seconds))
        if self.pictures is None:
            return
        before = time.perf_counter()
        self.page.wait_for_timeout(SETTLED_MS)
        path = self.pictures / f"{self.name}-{len(self.steps):02d}.png"
        self.page.screenshot(path=path, animations="disabled")
        self._started += time.perf_counter() - before  # pictures are no part of the journey


def demo_journey(visitor: Visitor, address: str) -> Path:
    """Go from the address to predictions of the demo's new crystals and return their report."""
    visitor.open(address)
    visitor.press("Use the demo data")
    visitor.see(LEARNED)
    visitor.press("Train on these")
    _train(visitor, "Start 2 trainings")
    visitor.press("Predict the demo's 12 new crystals")
    visitor.see("structures predicted")
    return visitor.download("Report (HTML)")


def own_journey(
    visitor: Visitor, address: str, *, structures: Path, gaps: Path, new: Sequence[Path]
) -> None:
    """Go from the address to predictions of new structures with a model of one's own data.

    Parameters
    ----------
    structures, gaps
        Archive of structures, and the table of their gaps.
    new
        Files of the structures to predict.
    """
    visitor.open(address)
    visitor.press("Train on gaps that I know")
    visitor.choose_files(structures, gaps)
    visitor.press("Check the files")
    visitor.see(LEARNED)
    visitor.press("Train on these")
    _train(visitor, "Start training")
    visitor.choose_files(*new)
    visitor.press("Predict")
    visitor.see("structures predicted")


def _train(visitor: Visitor, start: str) -> None:
    """Start the proposed transfers, wait for their result, and go to the page Predict."""
    visitor.see(TOLD)
    visitor.press(start)
    visitor.see("Mark a row to see its structure")  # the page Result, which opens by itself
    visitor.press("Predict new structures")
    visitor.see("Band gaps of new structures", timeout_ms=SHORT_MS)


def perovskite_files(
    data: Path, folder: Path, *, n: int, n_new: int, name: str = "dj_perovskite_hse"
) -> tuple[Path, Path, Path]:
    """Write an archive of perovskites, the table of their gaps, and an archive of new ones.

    Parameters
    ----------
    data
        Folder with the set `name`.
    folder
        Folder for the three files.
    n, n_new
        Numbers of labelled and of new structures.

    Raises
    ------
    InputError
        If the set has fewer structures.
    """
    source = data / name
    header, *rows = (source / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    if len(rows) < n + n_new:
        raise InputError(f"{n} and {n_new} structures. Accepted: together at most {len(rows)}.")
    paths = folder / "perovskites.zip", folder / "gaps.csv", folder / "new.zip"
    with ZipFile(source / "cifs.zip") as archive:
        members = {Path(name).stem: name for name in archive.namelist()}
        for path, part in ((paths[0], rows[:n]), (paths[2], rows[n : n + n_new])):
            with ZipFile(path, "w") as copy:
                for row in part:
                    member = members[row.partition(",")[0]]
                    copy.writestr(Path(member).name, archive.read(member))
    paths[1].write_text("\n".join([header, *rows[:n]]) + "\n", encoding="utf-8")
    return paths


@contextmanager
def dashboard(folder: Path) -> Iterator[str]:
    """Start `bandgap app` with an empty data directory, and yield the address that it prints.

    Raises BandgapError if it prints none.
    """
    environment = {**os.environ, "BANDGAP_HOME": str(folder)}
    port = free_port("127.0.0.1", 0)
    command = [sys.executable, "-m", "bandgap", "app", "--port", str(port)]
    with subprocess.Popen(
        command, cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            match = re.search(r"http://\S+", line)
            if match is None:
                raise BandgapError(f"bandgap app printed no address: {line!r}")
            yield match.group()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


@contextmanager
def browser_page(
    width: int, *, height: int = HEIGHT, dark: bool = False, flags: Sequence[str] = FLAGS
) -> Iterator["Page"]:
    """Open a page of a new visitor in Chromium, in a window of this size (pixels).

    `flags` are those of Chromium. Raises BandgapError where playwright or Chromium is not
    installed.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise BandgapError(
            "This benchmark needs playwright: pip install -c constraints.txt -e '.[test]'"
        ) from None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(flags)
        )
        try:
            yield browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme="dark" if dark else "light",
            )
        finally:
            browser.close()
