"""`python -m benchmarks pages` on the smallest workspace: output and file of figures."""

import json

import pytest
from typer.testing import CliRunner

from bandgap.jobs.dashboard import app_folder
from benchmarks.__main__ import app

pytestmark = pytest.mark.slow


def test_every_page_is_visited_and_measured(tmp_path):
    file = tmp_path / "pages.json"
    command = ["pages", "--structures", "150", "--runs", "3", "--visits", "2", "--json", str(file)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "150 structures, 3 finished runs, 2 visits of each page." in result.output
    assert "Heavy packages loaded: none." in result.output
    written = json.loads(file.read_text())
    assert set(written["pages"]) == {path.stem for path in (app_folder() / "views").glob("*.py")}
    assert all(
        len(times["clock_s"]) == 2 and min(times["clock_s"]) > 0
        for times in written["pages"].values()
    )
    assert written["heavy"] == [] and written["memory_MB"] > 50
