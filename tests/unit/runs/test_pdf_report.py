"""The report of a run as PDF, printed by an installed browser."""

from pathlib import Path

import pytest

from bandgap.foundation.errors import InputError
from bandgap.runs.html_report import write_report
from bandgap.runs.pdf_report import find_browser, pdf_bytes
from tests.unit.runs.brief_transfer import transfer


def test_report_is_printed_with_its_figures(source_folder, world, tmp_path: Path) -> None:
    if find_browser() is None:
        pytest.skip("no browser is installed")
    run = transfer(source_folder, world, tmp_path / "run", n_test=6)
    file = write_report(run, tmp_path / "new" / "report.pdf")
    content = file.read_bytes()
    assert content.startswith(b"%PDF-")
    empty = pdf_bytes("<!doctype html><p>A page.</p>")
    assert len(content) > 3 * len(empty)
    assert content.count(b"/Type /Page\n") >= 2 or content.count(b"/Type /Page") >= 3


def test_without_a_browser_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert find_browser() is None
    with pytest.raises(InputError, match=r"Write the report as \.html"):
        pdf_bytes("<p>")
