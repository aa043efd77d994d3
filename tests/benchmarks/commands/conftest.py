"""The commands of `python -m benchmarks` as tests call them, in this process."""

from pathlib import Path

import pytest

from benchmarks.__main__ import app
from tests.commands import Run, run_in_process, use_own_home


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory of the test's own."""
    return use_own_home(tmp_path, monkeypatch)


@pytest.fixture
def run() -> Run:
    """Call a benchmark in this process; exceptions that are no exit are raised."""
    return run_in_process(app)
