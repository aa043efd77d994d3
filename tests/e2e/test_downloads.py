"""Downloads in a browser: a table with refused rows, and the message for a failed file."""

import uuid
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from bandgap.jobs.store import JobStore
from bandgap.predictions.store import EXTXYZ
from tests.e2e.browsing import expect_ready
from tests.e2e.conftest import Dashboard

pytestmark = pytest.mark.browser

NEW_CRYSTALS = Path(__file__).resolve().parents[2] / "data" / "new_crystals"


def test_verdicts_of_a_data_set_with_refused_files_are_downloaded(
    page: Page, dashboard: Dashboard
) -> None:
    library = dashboard.library
    files = [(path.name, path.read_bytes()) for path in sorted(NEW_CRYSTALS.glob("*.cif"))]
    workspace = str(uuid.uuid4())
    dataset = library.add_dataset(workspace, "new crystals", files=files)
    payload = {"dataset": dataset.id}
    JobStore(library.home).submit(
        workspace, "check", title="Checking", payload=payload, subject=dataset.id
    )
    page.goto(dashboard.at("data", ws=workspace, data=dataset.id))
    expect(page.get_by_text("12 structures")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the verdicts (CSV)").click()
    rows = download.value.path().read_text(encoding="utf-8").splitlines()
    assert rows[0] == "id,file,status,gap_eV,problem,formula,n_atoms,periodic" and len(rows) == 13
    refused = [row for row in rows if ",refused," in row]
    assert refused and all(row.endswith(",,") for row in refused), (
        "formula, atoms and kind of a refused file"
    )


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


def test_download_can_be_fetched_after_other_pages_were_drawn(
    page: Page, dashboard: Dashboard
) -> None:
    page.goto(dashboard.at("predict", **dashboard.choices))
    expect_ready(page, "Predict")
    with page.expect_download() as download:
        page.get_by_role("button", name="Structures (extXYZ)").click()
    content = download.value.path().read_bytes()
    for name in ("data", "train", "about"):
        page.goto(dashboard.at(name, **dashboard.choices))
        expect(page.get_by_role("heading", level=1)).to_be_visible()
    response = page.request.get(download.value.url)
    assert (response.status, response.body()) == (200, content)
