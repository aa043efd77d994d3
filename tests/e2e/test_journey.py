"""First use in a browser: demo data, training, prediction, CSV, reload, cancel, killed worker."""

import contextlib
import csv
import io
import os
import re
import signal
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from bandgap.jobs.dashboard import healthy
from bandgap.jobs.home import Home
from bandgap.jobs.store import JobStore
from tests.e2e.conftest import Server

pytestmark = pytest.mark.browser

UREA = """data_urea
_symmetry_space_group_name_H-M 'P -4 21 m'
_symmetry_Int_Tables_number 113
_cell_length_a 5.565
_cell_length_b 5.565
_cell_length_c 4.684
_cell_angle_alpha 90
_cell_angle_beta 90
_cell_angle_gamma 90
loop_
_atom_site_label
_atom_site_type_symbol
_atom_site_fract_x
_atom_site_fract_y
_atom_site_fract_z
C1 C 0.0000 0.5000 0.3280
O1 O 0.0000 0.5000 0.5963
N1 N 0.1459 0.6459 0.1766
H1 H 0.2575 0.7575 0.2827
H2 H 0.1441 0.6441 -0.0380
"""
BROKEN = "data_broken\n_cell_length_a nonsense\n"
SOON_MS = 120_000  # imports of torch and dscribe on a busy machine
TRAINED_MS = 240_000
ENDLESS = 100_000  # iterations, of a transfer that is not to end by itself


def use_demo_data(page: Page, server: Server) -> None:
    """Open a new workspace and fill it with the demo crystals."""
    page.goto(server.address)
    page.get_by_role("button", name="Use the demo data").click()
    expect(page.get_by_text("have a gap and can be learned from")).to_be_visible(
        timeout=2 * SOON_MS
    )


def start_training(page: Page, *, n: int, iterations: int, clicks: int = 1) -> None:
    """Start a Bayesian transfer on the page Train, as few structures held out as it offers."""
    page.get_by_label("Labelled structures", exact=True).fill(str(n))
    page.get_by_role("slider", name="Held out for the test").press("Home")
    page.get_by_text("More settings").click()
    page.get_by_label("Warm-up iterations", exact=True).fill(str(iterations))
    page.get_by_label("Draws of each chain", exact=True).fill(str(iterations))
    page.get_by_role("button", name=re.compile("^Start ")).click(click_count=clicks)


def predict_files(page: Page, files: dict[str, str]) -> None:
    """Upload files on the Predict page and press its button."""
    payloads = [
        {"name": name, "mimeType": "text/plain", "buffer": text.encode()}
        for name, text in files.items()
    ]
    page.get_by_test_id("stFileUploaderDropzoneInput").set_input_files(payloads)
    for name in files:
        expect(page.get_by_text(name, exact=True)).to_be_visible(timeout=SOON_MS)
    page.get_by_role("button", name="Predict", exact=True).click()


def test_newcomer_goes_from_demo_data_to_a_csv_with_intervals(
    page: Page, server: Server, tmp_path: Path
) -> None:
    use_demo_data(page, server)
    page.get_by_role("link", name="Train", exact=True).click()
    start_training(page, n=30, iterations=20)
    expect(page.get_by_text("The training is finished")).to_be_visible(timeout=TRAINED_MS)
    page.get_by_role("button", name="Predict new structures").or_(
        page.get_by_role("link", name="Predict new structures")
    ).click()
    page.get_by_role("combobox", name="Structures").click()  # those of the demo are chosen
    page.get_by_role("option", name="New files").click()
    predict_files(page, {"urea.cif": UREA, "broken.cif": BROKEN})
    expect(page.get_by_text("1 structure predicted")).to_be_visible(timeout=TRAINED_MS)
    with page.expect_download() as download:
        page.get_by_role("button", name="Predictions (CSV)").click()
    saved = tmp_path / "predictions.csv"
    download.value.save_as(saved)
    rows = {
        row["file"]: row for row in csv.DictReader(io.StringIO(saved.read_text(encoding="utf-8")))
    }
    assert set(rows) == {"urea.cif", "broken.cif"}
    good = rows["urea.cif"]
    bad = rows["broken.cif"]
    assert good["formula"] == "C2H8N4O2"  # two molecules in the cell
    assert float(good["lower_eV"]) < float(good["mean_eV"]) < float(good["upper_eV"])
    assert (good["level"], good["interval"]) == ("0.95", "prediction")
    assert bad["status"] == "refused" and bad["problem"] and bad["mean_eV"] == bad["lower_eV"] == ""


def test_training_survives_the_death_of_its_worker_and_a_reload_until_cancelled_in_all_browsers(
    page: Page, browser: Browser, server: Server
) -> None:
    workspace, _ = server.new_workspace(name="crystals")
    page.goto(server.at("train", ws=workspace))
    start_training(page, n=20, iterations=ENDLESS, clicks=2)
    running = page.get_by_text("running for")
    expect(running).to_be_visible(timeout=2 * SOON_MS)
    expect(page).to_have_url(re.compile(r"ws=.+&.*run="))
    store = JobStore(Home(server.folder))
    assert len(store.jobs(workspace, kinds=["transfer"])) == 1
    with store.database.reading() as connection:
        (pid,) = connection.execute("SELECT pid FROM lock WHERE name = 'worker'").fetchone()
    os.kill(pid, signal.SIGKILL)
    expect(page.get_by_text("The training was interrupted.")).to_be_visible(timeout=2 * SOON_MS)
    page.get_by_role(
        "button", name=re.compile("Resume from the last checkpoint|Start it again")
    ).click()
    expect(running).to_be_visible(timeout=2 * SOON_MS)

    page.reload()
    expect(running).to_be_visible(timeout=2 * SOON_MS)
    other = browser.new_page()
    other.goto(page.url, timeout=2 * SOON_MS)
    expect(other.get_by_text("running for")).to_be_visible(timeout=SOON_MS)
    page.get_by_role("button", name="Cancel", exact=True).press("Enter")
    for tab in (page, other):
        expect(tab.get_by_text("The training was cancelled")).to_be_visible(timeout=SOON_MS)
    other.close()


def test_page_opened_before_the_worker_has_registered_continues_by_itself(
    page: Page, server: Server
) -> None:
    workspace, _ = server.new_workspace(name="crystals")
    library = server.library
    until = time.monotonic() + SOON_MS / 1000
    while not (library.methods() and library.shipped_sources()) and time.monotonic() < until:
        time.sleep(0.2)
    methods = library.methods()
    sources = library.shipped_sources()
    library.register_methods({})
    library.register_sources({})
    try:
        page.goto(server.at("train", ws=workspace))
        expect(page.get_by_text("this page then continues by itself")).to_be_visible(
            timeout=SOON_MS
        )
        expect(page.get_by_role("button", name="Start training")).to_have_count(0)
    finally:
        library.register_methods(methods)
        library.register_sources(sources)
    expect(page.get_by_role("button", name="Start training")).to_be_visible(timeout=SOON_MS)
    expect(page.get_by_text("this page then continues by itself")).to_have_count(0)


def test_page_killed_during_an_upload_comes_back_and_keeps_what_was_stored(
    page: Page, server: Server
) -> None:
    workspace, dataset = server.new_workspace(name="crystals")
    page.goto(server.at("data", ws=workspace))
    expect(page.get_by_text("120 have a gap and can be learned from")).to_be_visible(
        timeout=SOON_MS
    )
    page.get_by_text("Add another data set").click()
    wire = page.context.new_cdp_session(page)
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 100_000}
    wire.send("Network.emulateNetworkConditions", slow)
    big = [{"name": "big.cif", "mimeType": "text/plain", "buffer": b"#" * 5_000_000}]
    with page.expect_request(
        lambda request: "upload_file" in request.url and request.method != "OPTIONS"
    ):
        uploader = page.get_by_role("region", name="Structure files")
        uploader.get_by_test_id("stFileUploaderDropzoneInput").set_input_files(big)
    killed = page_process(server)
    os.kill(killed, signal.SIGKILL)
    wire.send("Network.emulateNetworkConditions", {**slow, "uploadThroughput": -1})
    expect(page.get_by_text("Network Error")).to_be_visible(timeout=SOON_MS)
    until = time.monotonic() + SOON_MS / 1000
    while not healthy(server.address) and time.monotonic() < until:
        time.sleep(0.2)
    assert page_process(server) != killed
    expect(page.locator('[data-test-connection-state="CONNECTED"]')).to_be_visible(timeout=SOON_MS)
    page.get_by_role(
        "link", name="Home", exact=True
    ).click()  # in the same tab, which has found the new process
    expect(page.get_by_text("1 data set · 120 structures")).to_be_visible(timeout=SOON_MS)
    assert [stored.id for stored in server.library.datasets(workspace)] == [dataset]


def page_process(server: Server) -> int:
    """Return the process that serves the pages of this server."""
    port = f'"port": {urlsplit(server.address).port}'.encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (folder / "cmdline").read_bytes()
            if b"server.py" in command and port in command:
                return int(folder.name)
    raise AssertionError(f"nothing serves {server.address}")
