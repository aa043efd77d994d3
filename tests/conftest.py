"""Fixtures and rules that hold for every test."""

import os
import shutil
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium")
IN_CI = os.environ.get("CI", "").lower() in ("1", "true")


@pytest.fixture(scope="session")
def test_data() -> Path:
    """Folder of outside data, named by BANDGAP_TEST_DATA; the test is skipped where it is not set."""
    folder = os.environ.get("BANDGAP_TEST_DATA", "")
    if not folder:
        pytest.skip("BANDGAP_TEST_DATA is not set")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"BANDGAP_TEST_DATA names {folder}, which is not a folder")
    return path


@pytest.fixture(autouse=True)
def main_module() -> Generator[None, None, None]:
    """Streamlit's AppTest leaves its script as `__main__`, which spawned processes of later tests would run again."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let proofs of many minutes take their time."""
    if item.get_closest_marker("soak"):
        item.add_marker(pytest.mark.timeout(0))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip browser tests where there is no Chromium."""
    if CHROMIUM is None and item.get_closest_marker("browser"):
        pytest.skip("no chromium on the PATH; install it (Debian: apt-get install chromium) to run the browser tests")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the skip of a browser test into a failure in continuous integration."""
    report = yield
    if IN_CI and report.skipped and item.get_closest_marker("browser"):
        report.outcome = "failed"
        reason = call.excinfo.value if call.excinfo else "no reason given"
        report.longrepr = f"{item.nodeid} was skipped, but CI=true demands the browser tests: {reason}"
    return report
