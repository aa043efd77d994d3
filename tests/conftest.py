"""Fixtures and hooks of all tests."""

import gc
import os
import shutil
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium")
MAX_WORKERS = 4  # Each needs about 1 GB of memory.
LONGEST_FILE = "test_every_method.py"  # of those at the end of the alphabet
IN_CI = os.environ.get("CI", "").lower() in ("1", "true")


@pytest.fixture(scope="session")
def test_data() -> Path:
    """Folder of public data sets, from BANDGAP_TEST_DATA; skip the test if it is not set."""
    folder = os.environ.get("BANDGAP_TEST_DATA", "")
    if not folder:
        pytest.skip("BANDGAP_TEST_DATA is not set")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"BANDGAP_TEST_DATA names {folder}, which is not a folder")
    return path


@pytest.fixture(autouse=True)
def main_module() -> Generator[None, None, None]:
    """Restore `__main__`, which AppTest replaces: spawned processes would run its script again."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main


@pytest.fixture(autouse=True, scope="session")
def _no_waits_for_the_disk() -> Generator[None, None, None]:
    """Do not wait until the disk has stored what this process writes.

    Tests of power cuts write in processes of their own, which wait.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bandgap.jobs.database.SYNCHRONOUS", "OFF")
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(autouse=True, scope="module")
def collect_garbage() -> Generator[None, None, None]:
    """Collect garbage after each file: unclosed resources then fail in the file that opened them.

    Objects that are alive afterwards are frozen, so that the next collection takes milliseconds.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use a process per core, or only this process if files are named on the command line."""
    if config.args_source == pytest.Config.ArgsSource.ARGS:
        return 0
    if hasattr(os, "sched_getaffinity"):
        n_cores = len(os.sched_getaffinity(0))
    else:
        n_cores = os.cpu_count() or 1
    return min(n_cores, MAX_WORKERS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the longest file first, so that no worker waits for another one that runs it last."""
    items.sort(key=lambda item: item.path.name != LONGEST_FILE)


def pytest_sessionfinish() -> None:
    """Unfreeze all objects for the last garbage collection of pytest."""
    gc.unfreeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Remove the time limit of soak tests, and repeat a browser test that fails once."""
    if item.get_closest_marker("soak"):
        item.add_marker(pytest.mark.timeout(0))
    elif item.get_closest_marker("browser"):
        item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip browser tests if there is no Chromium."""
    if CHROMIUM is None and item.get_closest_marker("browser"):
        pytest.skip(
            "no chromium on the PATH; install it (Debian: apt-get install chromium) to run the "
            "browser tests"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let skipped browser tests fail in continuous integration."""
    report = yield
    if IN_CI and report.skipped and item.get_closest_marker("browser"):
        report.outcome = "failed"
        reason = call.excinfo.value if call.excinfo else "no reason given"
        report.longrepr = f"{item.nodeid} was skipped, but CI=true requires browser tests: {reason}"
    return report
