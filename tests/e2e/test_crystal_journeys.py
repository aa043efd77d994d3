"""Journeys with crystals in a browser, each with few crystals and quick methods.

A CIF without labels, and the second demo. BANDGAP_TOUR stores pictures at two widths.
"""

import csv
import gzip
import io
import os
import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, TimeoutError, expect

from bandgap.datasets.demo import data_folder
from tests.e2e.browsing import expect_ready, picture
from tests.e2e.conftest import Server
from tests.e2e.test_journey import UREA

pytestmark = pytest.mark.browser

SOON_MS = 40_000
TRAINED_MS = 240_000
WIDE = 1280
PHONE = 400
FEATURE_GP = "Gaussian process on the source model's features"
PBP = "Probabilistic backpropagation (PBP)"
_FITS = (
    "() => { const e = document.querySelector('[data-testid=stMain]'); return e.scrollWidth <= "
    "e.clientWidth }"
)


def keep(page: Page, name: str) -> None:
    """Take pictures of the page on request; at phone width it does not scroll sideways."""
    if os.environ.get("BANDGAP_TOUR"):
        picture(page, f"journey-{name}-{WIDE}", width=WIDE)
        picture(page, f"journey-{name}-{PHONE}", width=PHONE)
    page.set_viewport_size({"width": PHONE, "height": 900})
    page.wait_for_function(_FITS, timeout=SOON_MS)  # figures follow the new size
    page.set_viewport_size({"width": WIDE, "height": 900})


def go(page: Page, title: str) -> None:
    page.get_by_role("link", name=title, exact=True).click()
    expect_ready(page, title)


def upload(page: Page, name: str, content: bytes, *, place: int = 0) -> None:
    """Give a file to one of the uploaders that are seen."""
    payload = {"name": name, "mimeType": "application/octet-stream", "buffer": content}
    page.locator("[data-testid=stFileUploader]:visible input[type=file]").nth(
        place
    ).set_input_files(payload)  # type: ignore[arg-type]
    expect(page.get_by_text(name, exact=True).first).to_be_visible(timeout=SOON_MS)


def pick(page: Page, label: str, option: str) -> None:
    """Choose an option of a select box; retry when a page being drawn closes the list."""
    box = page.get_by_role("combobox", name=label)
    expect(box).to_be_visible()
    expect_ready(page, "Train")
    for _ in range(3):
        box.click()
        try:
            page.get_by_role("option", name=option, exact=True).click(timeout=5_000)
            break
        except TimeoutError:
            page.keyboard.press("Escape")
    expect(box).to_have_value(option)
    expect_ready(page, "Train")


def tick_only(page: Page, *titles: str, until_now: str) -> None:
    """Tick only the methods of these titles; one is ticked initially."""
    first = page.get_by_role("checkbox", name=until_now, exact=True)
    expect(first).to_be_checked()
    first.press("Space")
    expect(page.get_by_text("No method is chosen. Tick at least one.")).to_be_visible()
    for title in titles:
        box = page.get_by_role("checkbox", name=title, exact=True)
        if box.is_visible():
            box.press("Space")
            expect(box).to_be_checked()
            continue
        page.get_by_text(re.compile(r"^More methods \(\d+\)$")).click()
        page.get_by_role("combobox", name="Further methods").fill(title)
        page.get_by_role("option", name=title).click()
        page.keyboard.press("Escape")


def start(page: Page, *, runs: int = 1) -> None:
    """Start the chosen transfers and wait for the end of the first."""
    label = "Start training" if runs == 1 else f"Start {runs} trainings"
    button = page.get_by_role("button", name=label)
    expect_ready(page, "Train")
    button.click()
    expect(page.get_by_text("The training is finished")).to_be_visible(timeout=TRAINED_MS)


def predicted(page: Page, *, n: int) -> list[dict[str, str]]:
    """Predict what was uploaded and return the rows of the CSV."""
    page.get_by_role("button", name="Predict", exact=True).click()
    expect(page.get_by_text(f"{n} structures predicted")).to_be_visible(timeout=TRAINED_MS)
    with page.expect_download() as download:
        page.get_by_role("button", name="Predictions (CSV)").click()
    return list(
        csv.DictReader(io.StringIO(Path(download.value.path()).read_text(encoding="utf-8")))
    )


def expect_gaps(
    page: Page,
    rows: list[dict[str, str]],
    ids: list[str],
    *,
    within: tuple[float, float],
    theory: str,
) -> None:
    """Every structure has a finite gap in this range, inside its interval; units are eV."""
    assert sorted(row["id"] for row in rows) == sorted(ids)
    assert [name for name in rows[0] if name.endswith("_eV")][:4] == [
        "mean_eV",
        "sd_eV",
        "lower_eV",
        "upper_eV",
    ]
    for row in rows:
        lower, gap, upper = (float(row[name]) for name in ("lower_eV", "mean_eV", "upper_eV"))
        assert (
            np.isfinite([lower, gap, upper]).all() and within[0] < lower < gap < upper < within[1]
        ), row
        assert 0 < float(row["sd_eV"]) < np.inf and float(row["level"]) == 0.95
        assert (
            row["status"] != "refused" and row["problem"] == "" and row["level_of_theory"] == theory
        )
    expect(page.get_by_text("predicted band gap (eV)").first).to_be_visible()


def extxyz_frames(n: int, name: str) -> list[bytes]:
    """Return the first crystals of a demo without gaps."""
    lines = gzip.decompress((data_folder() / name).read_bytes()).decode().splitlines(keepends=True)
    frames = []
    at = 0
    for _ in range(n):
        end = at + int(lines[at]) + 2
        text = "".join([lines[at], re.sub(r" gap_eV=\S+", "", lines[at + 1]), *lines[at + 2 : end]])
        frames = [*frames, text.encode()]
        at = end
    return frames


def test_own_cifs_without_labels_get_gaps_in_three_clicks(page: Page, server: Server) -> None:
    """The clicks are the button on Home, the choice of the files, and Predict."""
    page.goto(server.address)
    page.get_by_role("button", name="Predict band gaps of my crystals").click()
    expect_ready(page, "Predict")
    upload(page, "urea.cif", UREA.encode())
    page.get_by_role("button", name="Predict", exact=True).click()
    expect(page.get_by_text("1 structure predicted")).to_be_visible(timeout=TRAINED_MS)
    keep(page, "own-predict")
    expect(page.get_by_text(re.compile("^Formula: C2H8N4O2"))).to_be_visible()
    expect(page.get_by_text("These are PBE gaps.")).to_be_visible()
    # sd, file and distance are one click away, in the table's own menu of columns
    page.get_by_test_id("stDataFrame").hover()
    page.get_by_role("button", name="Show/hide columns").click()
    expect(page.get_by_text("sd_eV", exact=True).last).to_be_visible()


@pytest.mark.slow
def test_second_demo_goes_from_data_to_the_gaps_of_new_crystals(page: Page, server: Server) -> None:
    page.goto(server.at("data"))
    expect_ready(page, "Data")
    page.get_by_role("button", name="Use Materials Project crystals").click()
    expect(page.get_by_text("209 structures", exact=True)).to_be_visible(timeout=2 * SOON_MS)
    keep(page, "demo-data")
    go(page, "Train")
    # The proposed choice.
    expect(page.get_by_role("combobox", name="Source model")).to_have_value("No source model")
    pick(page, "Source model", "inorganic crystals (PBE)")
    page.get_by_label("Labelled structures", exact=True).fill("60")
    tick_only(page, PBP, until_now=FEATURE_GP)
    keep(page, "demo-train")
    start(page)
    go(page, "Result")
    expect(page.get_by_text("held-out structures;").first).to_be_visible()
    assert "molecul" not in page.get_by_test_id("stMain").inner_text().lower()
    keep(page, "demo-result")
    go(page, "Predict")
    new = extxyz_frames(3, "inorganic/target.extxyz.gz")
    upload(page, "new.extxyz", b"".join(new))
    rows = predicted(page, n=3)
    keep(page, "demo-predict")
    ids = [re.search(rb"\bid=(\S+)", frame)[1].decode() for frame in new]  # type: ignore[index]
    expect_gaps(page, rows, ids, within=(-5.0, 15.0), theory="PBE")
