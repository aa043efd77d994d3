"""A backup that is made while the server runs, and served afterwards."""

import shutil
import uuid
from pathlib import Path

import pytest

from bandgap.foundation.errors import InputError
from bandgap.jobs.backups import back_up
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.store import Job, JobStore
from bandgap.jobs.worker import Worker, work_all

WS = str(uuid.uuid4())
WATER = b"3\n%b\nO 0 0 0.119\nH 0 0.763 -0.477\nH 0 -0.763 -0.477\n"


def checking(home: Home, name: str) -> Job:
    dataset = Library(home).add_dataset(WS, name, files=[("w.xyz", WATER % name.encode())])
    payload = {"dataset": dataset.id}
    return JobStore(home).submit(WS, "check", title=name, payload=payload, subject=dataset.id)


def test_backup_of_a_served_folder_is_served_itself(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.folder.mkdir()
    run = home.run_folder(str(uuid.uuid4()))
    run.mkdir(parents=True)
    (run / "manifest.json").write_text("{}")
    (run / "table.csv.part").write_text("half")
    growing = home.checkpoint_folder("a" * 8) / "predictions.csv"
    growing.parent.mkdir(parents=True)
    growing.write_text("1\n")
    checking(home, "before")
    assert work_all(home) == 1
    waiting = checking(home, "waiting")
    copy = Home(tmp_path / "copy")
    with pytest.raises(InputError, match="exists already"):
        back_up(home, tmp_path)
    Worker(home).serve(until=lambda: True, begin=lambda home: back_up(home, copy.folder))
    copied_run = copy.folder / run.relative_to(home.folder)
    assert [path.name for path in copied_run.iterdir()] == ["manifest.json"]
    assert (copied_run / "manifest.json").samefile(run / "manifest.json")
    with growing.open("a") as file:
        file.write("2\n")
    shutil.rmtree(home.folder)

    Worker(copy).serve(until=lambda: JobStore(copy).has_ended(waiting.id))
    library = Library(copy)
    assert {one.name for one in library.datasets(WS)} == {"before", "waiting"}
    for dataset in library.datasets(WS):
        assert [verdict.status for verdict in library.verdicts(dataset.id)] == ["ready"]
        content = library.files(dataset.id)[0].content
        assert library.home.read_upload(content) == WATER % dataset.name.encode()
    assert (copy.folder / growing.relative_to(home.folder)).read_text() == "1\n"
