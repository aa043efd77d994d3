"""The commands of `python -m benchmarks` as tests call them, in this process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from benchmarks.__main__ import app

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory of the test's own."""
    folder = tmp_path / "home"
    monkeypatch.setenv("BANDGAP_HOME", str(folder))
    monkeypatch.setenv("COLUMNS", "200")
    return folder


@pytest.fixture
def run() -> Run:
    """Call a benchmark in this process; exceptions that are no exit are raised."""

    def call(*words: Any) -> Result:
        return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)

    return call
