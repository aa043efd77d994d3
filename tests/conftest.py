"""Fixtures and rules that hold for every test."""

import gc
import os
import shutil
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium")
MAX_WORKERS = 4  # each needs about 1 GB of memory
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


@pytest.fixture(autouse=True, scope="module")
def no_garbage_left_behind() -> Generator[None, None, None]:
    """Collect garbage after each file, so that an open socket, file or database fails in the file that left it.

    What is alive afterwards is frozen, so that the next collection looks only at new objects and takes milliseconds.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run the whole suite in a process for each core, and files that are named on the command line in this process."""
    if config.args_source == pytest.Config.ArgsSource.ARGS:
        return 0
    return min(
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        MAX_WORKERS,
    )


def pytest_sessionfinish() -> None:
    """Let pytest's own collection at the end see every object."""
    gc.unfreeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let proofs of many minutes take their time."""
    if item.get_closest_marker("soak"):
        item.add_marker(pytest.mark.timeout(0))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip browser tests where there is no Chromium."""
    if CHROMIUM is None and item.get_closest_marker("browser"):
        pytest.skip(
            "no chromium on the PATH; install it (Debian: apt-get install chromium) to run the browser tests"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the skip of a browser test into a failure in continuous integration."""
    report = yield
    if IN_CI and report.skipped and item.get_closest_marker("browser"):
        report.outcome = "failed"
        reason = call.excinfo.value if call.excinfo else "no reason given"
        report.longrepr = (
            f"{item.nodeid} was skipped, but CI=true demands the browser tests: {reason}"
        )
    return report
