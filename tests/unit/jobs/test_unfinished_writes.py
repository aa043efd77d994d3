"""Files of interrupted writes are removed from the data directory when the worker starts."""

from pathlib import Path

import pytest

from bandgap.jobs.home import open_home
from bandgap.jobs.housekeeping import drop_unfinished_writes

RUN = "0d4c6a3e-0000-4000-8000-000000000000"


@pytest.mark.parametrize("parent", ["runs", "sources", f"runs/{RUN}/predictions"])
def test_unfinished_folder_is_removed_and_the_finished_one_stays(
    parent: str, tmp_path: Path
) -> None:
    home = open_home(tmp_path / "home")
    folder = home.folder / parent
    (folder / RUN).mkdir(parents=True)
    (folder / f".{RUN}.0123abcd.new").mkdir()
    (folder / f".{RUN}.0123abcd.new" / "half").touch()
    drop_unfinished_writes(home)
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
    assert (folder / RUN).is_dir()
