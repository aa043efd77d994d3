"""A folder of structures is dropped on the field for files."""

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from bandgap.datasets.demo import data_folder
from tests.e2e.browsing import expect_settled
from tests.e2e.conftest import Server

pytestmark = pytest.mark.browser


def test_dropped_folder_gives_the_files_in_it_and_in_its_folders(
    page: Page, server: Server, tmp_path: Path
) -> None:
    first, second = sorted((data_folder() / "new_crystals").glob("*.cif"))[:2]
    (tmp_path / "mine" / "more").mkdir(parents=True)
    shutil.copy(first, tmp_path / "mine")
    shutil.copy(second, tmp_path / "mine" / "more")
    page.goto(server.at("data"))
    expect_settled(page, "Data")
    box = page.get_by_test_id("stFileUploaderDropzone").bounding_box()
    assert box is not None
    devtools = page.context.new_cdp_session(page)
    files = {"items": [], "files": [str(tmp_path / "mine")], "dragOperationsMask": 1}
    for event in ("dragEnter", "dragOver", "drop"):
        place = {"x": box["x"] + 40, "y": box["y"] + 20}
        devtools.send("Input.dispatchDragEvent", {"type": event, **place, "data": files})
    for path in (first, second):
        expect(page.get_by_text(path.name, exact=True)).to_be_visible()
    page.get_by_role("button", name="Check the files").click()
    expect(page.get_by_text("2 structures")).to_be_visible()
