"""The way of a new user with structures and gaps of his own, from the address to predictions."""

import gzip
from pathlib import Path
from zipfile import ZipFile

import pytest
from playwright.sync_api import Page, expect

from bandgap.datasets.demo import data_folder
from benchmarks.day import Visitor, own_journey
from tests.e2e.conftest import Server

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MOST_CLICKS = 12
N_LABELLED = 40
N_NEW = 3


def own_files(folder: Path) -> tuple[Path, Path, Path]:
    """Write an archive of crystals, the table of their gaps, and a file of new crystals."""
    frames = []
    with gzip.open(data_folder() / "crystals.extxyz.gz", "rt") as file:
        for _ in range(N_LABELLED + N_NEW):
            count = file.readline()
            frames.append(count + "".join(file.readline() for _ in range(int(count) + 1)))
    structures, gaps, new = folder / "mine.zip", folder / "gaps.csv", folder / "new.extxyz"
    with ZipFile(structures, "w") as archive:
        for number, frame in enumerate(frames[:N_LABELLED]):
            archive.writestr(f"crystal-{number}.extxyz", frame)
    table = (data_folder() / "crystals.csv").read_text(encoding="utf-8").splitlines()
    column = table[0].split(",").index("gap_eV")
    rows = [
        f"crystal-{number}.extxyz,{line.split(',')[column]}"
        for number, line in enumerate(table[1 : N_LABELLED + 1])
    ]
    gaps.write_text("\n".join(["file,gap_eV", *rows]) + "\n", encoding="utf-8")
    new.write_text("".join(frames[N_LABELLED:]), encoding="utf-8")
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
