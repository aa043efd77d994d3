"""The way of a new user with structures and gaps of his own, from the address to predictions."""

from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Page, expect

from bandgap.datasets.demo import data_folder
from benchmarks.day import Visitor, own_journey
from tests.e2e.conftest import Server
from tests.e2e.test_crystal_journeys import extxyz_frames, zipped

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MOST_CLICKS = 12
N_LABELLED = 40
N_NEW = 3


def own_files(folder: Path) -> tuple[Path, Path, Path]:
    """Write an archive of crystals, the table of their gaps, and a file of new crystals."""
    frames = extxyz_frames(N_LABELLED + N_NEW)
    structures, gaps, new = folder / "mine.zip", folder / "gaps.csv", folder / "new.extxyz"
    names = [f"crystal-{number}.extxyz" for number in range(N_LABELLED)]
    structures.write_bytes(zipped(list(zip(names, frames, strict=False))))
    table = pd.read_csv(data_folder() / "crystals.csv")[["gap_eV"]].head(N_LABELLED)
    table.assign(file=names).to_csv(gaps, index=False)
    new.write_bytes(b"".join(frames[N_LABELLED:]))
    return structures, gaps, new


@pytest.mark.parametrize("width", [1280, 400])
def test_own_crystals_are_predicted_within_twelve_clicks(
    page: Page, server: Server, tmp_path: Path, width: int
) -> None:
    structures, gaps, new = own_files(tmp_path)
    page.set_viewport_size({"width": width, "height": 900})
    visitor = Visitor(page)
    own_journey(visitor, server.address, structures=structures, gaps=gaps, new=[new])
    expect(page.get_by_text(f"{N_NEW} structures predicted")).to_be_visible()
    assert visitor.clicks <= MOST_CLICKS, visitor.steps
