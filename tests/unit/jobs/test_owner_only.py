"""Only its owner can read the data directory: structures, gaps and models."""

import io
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from ase.io import write

from bandgap.jobs.entries import SourceEntry
from bandgap.jobs.home import Home, open_home
from bandgap.jobs.job_process import run_job
from bandgap.jobs.library import Library
from bandgap.jobs.store import Job, JobStore
from bandgap.jobs.tasks import sources as source_tasks
from bandgap.jobs.worker import work_all
from bandgap.runs.requests import TransferRequest
from tests.transfers import transfer_labelled
from tests.unit.jobs.payloads import source_payload, transfer_payload

pytestmark = pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")

WS = str(uuid.uuid4())
LONG = {"sampler": {"chains": 2, "warmup": 60, "draws": 100_000, "keep": 8, "max_steps": 2}}
SPLIT = {"source": "toy", "n": 16, "n_test": 4, "seed": 1, "device": "cpu"}
WATER = b"3\nwater\nO 0 0 0.119\nH 0 0.763 -0.477\nH 0 -0.763 -0.477\n"


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


class Ended(BaseException):
    """Raised where the process ends."""


class EndedAtACheckpoint(JobStore):
    """Ends a job that checks for a cancel request, as soon as there is a checkpoint."""

    def cancel_requested(self, job_id: str) -> bool:
        if any((self.home.folder / "checkpoints").glob("*/*.safetensors")):
            raise Ended
        return False


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def open_to_others(folder: Path) -> list[str]:
    return [
        f"{path} {mode(path):03o}" for path in (folder, *folder.rglob("*")) if mode(path) & 0o077
    ]


def submitted(home: Home, kind: str, subject: str, **payload: object) -> Job:
    return JobStore(home).submit(WS, kind, title=kind, payload=payload, subject=subject)


def test_nothing_that_jobs_and_pages_write_is_open_to_others(
    tmp_path, world, source_folder, monkeypatch
):
    monkeypatch.setattr(source_tasks, "MIN_LABELLED", 20)
    home = open_home(tmp_path / "home")
    library = Library(home)
    library.register_sources({"toy": SourceEntry("toy", str(source_folder))})
    text = io.StringIO()
    write(text, [record.atoms for record in world.records], format="extxyz")
    learned = library.add_dataset(WS, "set", files=[("set.extxyz", text.getvalue().encode())]).id
    new = library.add_dataset(WS, "new", purpose="prediction", files=[("water.xyz", WATER)]).id
    submitted(home, "check", learned, dataset=learned)
    work_all(home)
    library.save_gaps(learned, world.gaps_eV, labels={"source": "made"}, level_of_theory="PBE")
    run = str(uuid.uuid4())
    source = str(uuid.uuid4())
    done = [
        submitted(
            home,
            "transfer",
            run,
            **transfer_payload(run=run, dataset=learned, method="last_layer_ridge", **SPLIT),
        ),
        submitted(
            home,
            "train_source",
            source,
            **source_payload(
                source=source, dataset=learned, hidden=(6, 4), max_epochs=3, device="cpu"
            ),
        ),
    ]
    library.add_run(
        WS,
        job=done[0].id,
        run_id=run,
        dataset=learned,
        source="toy",
        title="t",
        request=TransferRequest(method="m"),
    )
    work_all(home)
    done.append(submitted(home, "predict", new, run=run, dataset=new, name="new"))
    work_all(home)
    assert [JobStore(home).job(WS, job.id).state for job in done] == ["finished"] * 3

    lasting = transfer_payload(run="f" * 36, dataset=learned, method="bnn", settings=LONG, **SPLIT)
    submitted(home, "transfer", "lasting", **lasting)
    store = EndedAtACheckpoint(home)
    with pytest.raises(Ended):
        run_job(store, store.claim("w"))
    with (
        library.database.writing()
    ):  # with the files beside the store that SQLite makes for a while
        paths = {
            path.relative_to(home.folder).parts[0]
            for path in home.folder.rglob("*")
            if path.is_file()
        }
        assert open_to_others(home.folder) == []
    expected = {"uploads", "runs", "sources", "datasets", "cache", "checkpoints"}
    assert paths == expected | {f"bandgap.sqlite3{part}" for part in ("", "-wal", "-shm")}
    assert {"predictions", "draws.safetensors"} <= {
        path.name for path in home.run_folder(run).iterdir()
    }
    assert os.umask(0o022) == 0o022, "what this process makes besides is as before"


def test_run_of_the_shell_has_the_rights_of_any_other_file(tmp_path, world, source_folder):
    settings = {"method": "last_layer_ridge", "n": 16, "n_test": 4}
    out = transfer_labelled(
        source_folder, world.records, np.array(world.gaps_eV), **settings, out=tmp_path / "run"
    )
    assert mode(out) == 0o755 and {mode(path) for path in out.iterdir()} == {0o644}


def test_directory_from_before_is_closed_to_others(tmp_path):
    folder = tmp_path / "home"
    JobStore(open_home(folder))
    folder.chmod(0o755)
    (folder / "bandgap.sqlite3").chmod(0o644)
    open_home(folder)
    assert (mode(folder), mode(folder / "bandgap.sqlite3")) == (0o700, 0o600)


def test_folder_of_other_things_keeps_its_rights_but_what_is_made_in_it_has_none(tmp_path):
    folder = tmp_path / "everything"
    folder.mkdir()
    (folder / "thesis.tex").write_text("text")
    home = open_home(folder)
    Library(home).add_dataset(WS, "set", files=[("water.xyz", WATER)])
    assert (mode(folder), mode(folder / "thesis.tex")) == (0o755, 0o644)
    assert {mode(home.database), mode(folder / "uploads")} == {0o600, 0o700}
    assert open_to_others(folder / "uploads") == []


def test_directory_of_somebody_else_is_warned_of_and_used(tmp_path, monkeypatch, caplog):
    folder = tmp_path / "home"
    folder.mkdir()

    def refuse(path: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    assert JobStore(open_home(folder)).jobs(WS) == []
    assert caplog.messages[0].startswith(
        f"Other users of this machine may read {folder} (mode 755), which cannot be"
    )
    assert "by chmod go-rwx; or set BANDGAP_HOME to a folder of your own." in caplog.messages[0]
