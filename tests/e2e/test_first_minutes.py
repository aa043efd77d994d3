"""The first minutes of a newcomer in a browser: clicks counted, times printed.

`pytest -n 0 -rP -m slow tests/e2e/test_first_minutes.py` prints when each step was seen. Where the
environment variable BANDGAP_QUIET_CORES says that nothing else computes on this machine, the times
are checked too.
"""

import html
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from benchmarks.day import Visitor, dashboard, demo_journey, own_journey, perovskite_files

pytestmark = [pytest.mark.browser, pytest.mark.slow]

IS_QUIET = bool(os.environ.get("BANDGAP_QUIET_CORES"))
TRANSFER_S = 90.0  # from the click to the result of the Bayesian transfer
DEMO_S = 180.0
DEMO_CLICKS = 6
OWN_CLICKS = 10  # two of them for each dialog that chooses files


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of a new `bandgap app` on all cores."""
    with dashboard(tmp_path / "home") as printed:
        yield printed


def printed(visitor: Visitor) -> None:
    """Print the steps; with quiet cores check the time that was said before the start."""
    for step in visitor.steps:
        sys.stdout.write(f"{step.seconds:6.1f} s, {step.clicks:2} clicks: {step.text}\n")
    (k,) = (k for k, step in enumerate(visitor.steps) if step.text.startswith("press 'Start"))
    start, result = visitor.steps[k : k + 2]
    spent = result.seconds - start.seconds
    minutes, seconds = (
        re.search(rf"(\d+) {unit}\b", visitor.steps[k - 1].text) for unit in ("min", "s")
    )
    estimate_s = 60.0 * int(minutes[1] if minutes else 0) + int(seconds[1] if seconds else 0)
    sys.stdout.write(f"the transfer took {spent:.0f} s, said before: {estimate_s:.0f} s\n")
    if IS_QUIET:
        assert estimate_s / 2 <= spent <= 2 * estimate_s


def test_demo_leads_to_a_report_in_six_clicks(page: Page, address: str) -> None:
    visitor = Visitor(page)
    report = html.unescape(demo_journey(visitor, address).read_text(encoding="utf-8"))
    printed(visitor)
    assert visitor.clicks <= DEMO_CLICKS
    assert report.count("<img ") >= 8
    for text in ("Freedom of each layer", "Fine-tuning, 200 of demo crystals", "BTL-PCP", "1,600"):
        assert text in report, text
    if IS_QUIET:
        assert visitor.seconds <= DEMO_S


@pytest.mark.parametrize("name", ["dj_perovskite_hse", "perov5_gllb"])
def test_own_data_lead_to_predictions_in_ten_clicks(
    name: str, page: Page, address: str, tmp_path: Path
) -> None:
    if "BANDGAP_TEST_DATA" not in os.environ:
        pytest.skip("BANDGAP_TEST_DATA names no folder")
    data = Path(os.environ["BANDGAP_TEST_DATA"])
    files = perovskite_files(data, tmp_path, n=200, n_new=12, name=name)
    visitor = Visitor(page)
    own_journey(visitor, address, structures=files[0], gaps=files[1], new=[files[2]])
    printed(visitor)
    assert visitor.clicks <= OWN_CLICKS
