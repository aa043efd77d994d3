"""Files that an earlier version wrote, and a data directory of them."""

import shutil
import zipfile
from pathlib import Path

import pytest

from bandgap.jobs.home import Home
from tests.earlier.written import ARCHIVE


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all files; tests must not change it."""
    folder = tmp_path_factory.mktemp("earlier")
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def home(earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A copy of the workspace's data directory, which is the one in use."""
    folder = Path(shutil.copytree(earlier / "workspace", tmp_path / "home"))
    monkeypatch.setenv("BANDGAP_HOME", str(folder))
    return Home(folder)
