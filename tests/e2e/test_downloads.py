"""Downloads in a browser: those of every page, and the message for a failed file."""

import io
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import ElementHandle, Locator, Page, expect

from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.store import JobStore
from bandgap.jobs.worker import work_all
from bandgap.predictions.store import EXTXYZ
from benchmarks.sample_workspace import SampleWorkspace
from tests.e2e.browsing import PAGES, expect_ready, expect_settled
from tests.e2e.conftest import Dashboard, copied_dashboard, serving
from tests.unit.calculations.vasprun_text import vasprun

pytestmark = pytest.mark.browser

FIGURE = "-numbers.csv"
# The page whose first figure is exported in every format too: the server starts a browser for each.
EXPORTING = "Result"
# Ends of the names of files that a page offers; those of jobs, folds and tabs are among them.
ENDS = {
    "Data": (
        *("verdicts.csv", "structure.csv", "atoms.csv"),
        *("calculations.csv", FIGURE),
    ),
    "Source models": ("sources.csv", FIGURE),
    "Train": ("runs.csv",),
    "Result": (
        *("n-60.html", "n-60.pdf", "n-60.zip", "held_out.csv", "signed-errors-numbers.csv"),
        *("scales.csv", "figures.csv", "cm.pdf", "cm.svg", "cm.png", FIGURE),
    ),
    "Compare": ("comparison.csv", "settings.csv", FIGURE),
    "Predict": (".csv", ".extxyz", ".zip", FIGURE),
}
IS_WHOLE: dict[str, Callable[[bytes], bool]] = {
    "csv": lambda data: not pd.read_csv(io.BytesIO(data)).empty,
    "json": lambda data: bool(json.loads(data)),
    "extxyz": lambda data: b"Properties=species:S:1:pos:R:3" in data,
    "html": lambda data: b"</html>" in data[-20:],
    "zip": lambda data: zipfile.ZipFile(io.BytesIO(data)).testzip() is None,
    "pdf": lambda data: data.startswith(b"%PDF-") and b"%%EOF" in data[-10:],
    "png": lambda data: data.startswith(b"\x89PNG") and b"IEND" in data[-12:],
    "svg": lambda data: b"<svg" in data and b"</svg>" in data[-10:],
}


@pytest.fixture(scope="module")
def full_dashboard(
    sample_home: tuple[Path, SampleWorkspace, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Dashboard]:
    """Serve the filled workspace with results of the jobs of the page Data."""
    original, sample, prediction = sample_home
    folder = tmp_path_factory.mktemp("full")
    shutil.copytree(original, folder, dirs_exist_ok=True)
    home = Home(folder)
    library = Library(home)
    jobs = JobStore(home)
    outputs = library.add_dataset(
        sample.id, "outputs", purpose="calculations", files=[("vasprun.xml", vasprun().encode())]
    ).id
    payload = {"dataset": outputs, "keep_unconverged": False}
    jobs.submit(sample.id, "read_calculations", title="Reading", payload=payload, subject=outputs)
    work_all(home)
    assert {job.state for job in jobs.jobs(sample.id)} == {"finished"}
    copy = tmp_path_factory.mktemp("home")
    with copied_dashboard((folder, sample, prediction), copy) as dashboard:
        yield dashboard


@pytest.mark.parametrize("title", PAGES)
def test_every_download_of_a_page_arrives_whole(
    page: Page, full_dashboard: Dashboard, title: str
) -> None:
    main = page.get_by_test_id("stMain")
    names = set()
    for view, _ in enumerate(views(page, full_dashboard, title)):
        open_folds(page, title)
        names |= arrived_files(page, main)
        for number, opener in enumerate(unpressed(main.locator("[class*=st-key-paper-]"))):
            exports = title == EXPORTING and view == number == 0
            names |= files_of_figure(page, opener, "" if exports else "CSV")
    ends = ENDS.get(title, ())
    assert [end for end in ends if not any(name.endswith(end) for name in names)] == []
    assert ends or not names, "a page whose downloads are not listed above"


def views(page: Page, dashboard: Dashboard, title: str) -> Iterator[None]:
    """Open a page, and show all that its tabs hide in turn."""
    page.goto(dashboard.at(PAGES[title], **dashboard.choices))
    expect_settled(page, title)
    yield
    main = page.get_by_test_id("stMain")
    for tab in main.get_by_role("tab").all()[1:]:
        tab.press("Enter")
        page.wait_for_timeout(500)  # some tabs run the page again
        expect_ready(page, title)
        yield


def open_folds(page: Page, title: str) -> None:
    closed_folds = page.locator("[data-testid=stMain] details:not([open]) > summary:visible")
    while closed_folds.count():
        closed_folds.first.press("Enter")
        expect_ready(page, title)


def files_of_figure(page: Page, opener: ElementHandle, text: str) -> set[str]:
    """Press the buttons with a text of the popover with a figure for a paper, and close it."""
    opener.press("Enter")
    popover = page.get_by_test_id("stPopoverBody")
    expect(popover.get_by_text("Exported by the browser")).to_be_visible()
    names = arrived_files(page, popover, text)
    page.keyboard.press("Escape")
    expect(popover).to_have_count(0)
    return names


def arrived_files(page: Page, part: Locator, text: str = "") -> set[str]:
    """Press the download buttons with a text in a part of the page; return the names of the files.

    Each file has the form that the suffix of its name says.
    """
    names = set()
    for button in unpressed(part.get_by_test_id("stDownloadButton").filter(has_text=text)):
        with page.expect_download() as download:
            button.press("Enter")
        name = download.value.suggested_filename
        assert IS_WHOLE[name.rpartition(".")[2]](download.value.path().read_bytes()), name
        names.add(name)
    return names


def unpressed(elements: Locator) -> Iterator[ElementHandle]:
    """Yield the button of each visible element once, also where a page shows it again."""
    buttons = elements.locator("button:visible:not([data-pressed])")
    while buttons.count():
        button = buttons.first.element_handle()
        button.evaluate("e => { e.dataset.pressed = '' }")
        yield button


def test_figure_is_saved_by_the_visitor_where_the_server_has_no_browser(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with serving(tmp_path) as address:
        page.goto(f"{address}/{PAGES['Source models']}")
        expect_settled(page, "Source models")
        page.get_by_role("button", name="Figure and numbers").first.press("Enter")
        popover = page.get_by_test_id("stPopoverBody")
        expect(popover.get_by_test_id("stDownloadButton")).to_have_count(1)  # the numbers
        with page.expect_download() as download:
            popover.get_by_role("button", name="Download plot").press("Enter")
        assert IS_WHOLE["svg"](download.value.path().read_bytes())


def test_download_that_fails_shows_the_reason_until_it_works(
    page: Page, dashboard: Dashboard
) -> None:
    home = dashboard.library.home
    run = dashboard.sample.runs[0]
    file = home.prediction_folder(run, dashboard.prediction) / EXTXYZ
    content = file.read_bytes()
    page.goto(dashboard.at("predict", **dashboard.choices))
    expect_ready(page, "Predict")
    button = page.get_by_role("button", name="Structures (extXYZ)")
    expect(button).to_be_visible()
    problem = page.get_by_text(".extxyz was not made")
    file.write_bytes(b"no structures")
    try:
        button.click()
        expect(problem).to_be_visible()
        page.wait_for_timeout(6000)  # longer than Streamlit shows that something failed
        expect(problem).to_be_visible()
    finally:
        file.write_bytes(content)
    with page.expect_download() as download:
        button.click()
    assert "Lattice" in download.value.path().read_text(encoding="utf-8")
    expect(problem).to_have_count(0)


def test_download_can_be_fetched_after_another_page_was_drawn(
    page: Page, dashboard: Dashboard
) -> None:
    page.goto(dashboard.at("predict", **dashboard.choices))
    expect_ready(page, "Predict")
    with page.expect_download() as download:
        page.get_by_role("button", name="Structures (extXYZ)").click()
    content = download.value.path().read_bytes()
    page.goto(dashboard.at("about", **dashboard.choices))
    expect_ready(page, "About")
    response = page.request.get(download.value.url)
    assert (response.status, response.body()) == (200, content)
