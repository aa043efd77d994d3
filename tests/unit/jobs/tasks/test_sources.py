"""Source models of a workspace: trained by a job, listed in that workspace only, deleted."""

import io
import json
import uuid
from pathlib import Path

import pytest
from ase.io import write

from bandgap.foundation.errors import Cancelled, InputError
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.server_files import VARIABLE
from bandgap.jobs.sources import delete_source, source_path, sources_of
from bandgap.jobs.store import Job, JobStore
from bandgap.jobs.tasks import sources as source_tasks
from bandgap.jobs.tasks.records import Work
from bandgap.jobs.worker import work_all
from bandgap.sources.stored import load_source
from tests.unit.jobs.payloads import source_payload

WS = str(uuid.uuid4())
STRANGER = str(uuid.uuid4())
SMALL = {"hidden": [6, 4], "max_epochs": 3, "seed": 0, "device": "cpu"}


@pytest.fixture
def home(tmp_path, world, monkeypatch) -> Home:
    """A data directory with a labelled data set of 36 molecules."""
    monkeypatch.setattr(source_tasks, "MIN_LABELLED", 20)
    home = Home(tmp_path)
    library = Library(home)
    text = io.StringIO()
    write(text, [record.atoms for record in world.source_records], format="extxyz")
    dataset = library.add_dataset(WS, "molecules", files=[("m.extxyz", text.getvalue().encode())])
    JobStore(home).submit(
        WS, "check", title="check", payload={"dataset": dataset.id}, subject=dataset.id
    )
    work_all(home)
    library.save_gaps(dataset.id, world.source_gaps_eV, labels={}, level_of_theory="PBE")
    return home


def submitted(home: Home, **changed) -> Job:
    source = str(uuid.uuid4())
    dataset = Library(home).datasets(WS)[0].id
    payload = source_payload(source=source, **{"dataset": dataset, **SMALL, **changed})
    return JobStore(home).submit(
        WS, "train_source", title="training", payload=payload, subject=source
    )


def ended(home: Home, job: Job) -> Job:
    work_all(home)
    stored_job = JobStore(home).job(WS, job.id)
    assert stored_job is not None
    return stored_job


def sources_by_id(home: Home, workspace: str) -> dict:
    return sources_of(JobStore(home), Library(home), workspace)


def oe62_file(folder: Path, records) -> None:
    """Write molecules in the layout of OE62's files."""
    text = []
    rows = []
    for record in records:
        text.append("\n".join([str(len(record.atoms)), "", *_lines(record.atoms)]) + "\n")
        n = len(record.atoms)
        rows.append([record.id, n, text[-1], [-9.0 - 0.1 * n], [-1.0]])
    columns = [
        "refcode_csd",
        "number_of_atoms",
        "xyz_pbe_relaxed",
        "energies_occ_pbe",
        "energies_unocc_pbe",
    ]
    table = {"columns": columns, "index": list(range(len(rows))), "data": rows}
    (folder / "df.json").write_text(json.dumps(table))


def _lines(atoms):
    return [
        f"{s} {x:.6f} {y:.6f} {z:.6f}"
        for s, (x, y, z) in zip(atoms.symbols, atoms.positions, strict=True)
    ]


def test_source_of_a_data_set_belongs_to_its_workspace_alone(home):
    job = submitted(home, licence="CC0-1.0")
    assert ended(home, job).state == "finished"
    (source,) = sources_by_id(home, WS).values()
    assert (source.title, source.card["level_of_theory"], source.card["licence"]) == (
        "mine",
        "PBE",
        "CC0-1.0",
    )
    assert source.card["n_structures"] == 36 and len(source.manifest["history"]) == 3
    assert load_source(source_path(Library(home), WS, job.subject)).descriptor.species == (
        "H",
        "C",
        "O",
    )
    assert sources_by_id(home, STRANGER) == {}
    with pytest.raises(
        InputError, match="No source model .* Known: none yet. Choose one of these."
    ):
        source_path(Library(home), STRANGER, job.subject)


def test_source_of_a_file_of_the_server(home, world, tmp_path, monkeypatch):
    folder = tmp_path / "offered"
    folder.mkdir()
    oe62_file(folder, world.source_records)
    monkeypatch.setenv(VARIABLE, str(folder))
    job = submitted(home, file="df.json", level="pbe", preset="thesis-1260")
    assert ended(home, job).error == ""
    card = sources_by_id(home, WS)[job.subject].card
    assert (card["level_of_theory"], card["n_structures"]) == ("PBE+vdW", 36)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"file": "df.json", "level": "pbe"}, "This server offers no folder of files"),
        ({"preset": "none"}, "preset is 'none'. Accepted: thesis-1260"),
        ({"dataset": "f" * 32}, "This workspace has no such data set"),
    ],
)
def test_job_that_cannot_train_says_why_and_leaves_no_source(home, monkeypatch, changed, text):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert text in failed(home, submitted(home, **changed))


def test_graph_network_is_trained_with_its_readout_as_descriptor(home):
    pytest.importorskip("torch_geometric")
    job = ended(home, submitted(home, network="megnet"))
    assert (job.state, job.error) == ("finished", "")
    source = sources_by_id(home, WS)[job.subject]
    assert source.card["graph"].startswith("MEGNet") and source.card["n_structures"] == 36
    assert load_source(source.folder).descriptor.graph.config.species == ("C", "H", "O")


def failed(home: Home, job: Job) -> str:
    """Return why a job failed; it leaves no source."""
    job = ended(home, job)
    assert (
        job.state == "failed"
        and sources_by_id(home, WS) == {}
        and not home.source_folder(job.subject).exists()
    )
    return job.error


def test_path_out_of_the_folder_is_refused_by_the_job(home, tmp_path, monkeypatch):
    (tmp_path / "offered").mkdir()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "offered"))
    job = ended(home, submitted(home, file="../bandgap.sqlite3", level="pbe"))
    assert "is none of the files that this server offers" in job.error


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("MIN_LABELLED", 37, "36 structures with a gap; a source model is trained here from 37 to"),
        ("MAX_STRUCTURES", 35, "from 20 to 35"),
        ("MAX_FEATURE_BYTES", 100, "features of 36 structures take 0.0 GB; at most 0 GB"),
    ],
)
def test_limits_are_named(home, monkeypatch, name, value, text):
    monkeypatch.setattr(source_tasks, name, value)
    assert text in ended(home, submitted(home)).error


def test_file_of_too_many_rows_ends_while_it_is_read(home, world, tmp_path, monkeypatch):
    monkeypatch.setattr(source_tasks, "MAX_STRUCTURES", 25)
    monkeypatch.setattr("bandgap.datasets.oe62._ROWS_PER_UPDATE", 10)
    oe62_file(tmp_path, world.source_records)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert (
        "df.json holds more than 25 structures"
        in ended(home, submitted(home, file="df.json", level="pbe")).error
    )


def test_cancelled_training_leaves_no_folder(home):
    job = submitted(home)

    def progress(update):
        if update.phase == "training the source network":
            raise Cancelled("gone")

    with pytest.raises(Cancelled):
        source_tasks.train_source(Work(job, home, progress))
    assert not home.source_folder(job.subject).exists()


def test_delete_removes_the_folder_unless_somebody_works_with_it(home):
    job = submitted(home)
    jobs = JobStore(home)
    library = Library(home)
    with pytest.raises(InputError, match="training is queued. Cancel it first"):
        delete_source(jobs, library, WS, job.subject)
    ended(home, job)
    with pytest.raises(InputError, match="This workspace has not trained that source model"):
        delete_source(jobs, library, STRANGER, job.subject)
    for kind in ("transfer", "learning_curve"):
        payload = {"source": job.subject, "method": "fine_tune"}
        user = jobs.submit(WS, kind, title=f"a {kind}", payload=payload, subject=str(uuid.uuid4()))
        with pytest.raises(InputError, match=f"a {kind} is queued"):
            delete_source(jobs, library, WS, job.subject)
        jobs.request_cancel(WS, user.id)
    delete_source(jobs, library, WS, job.subject)
    assert sources_by_id(home, WS) == {} and not home.source_folder(job.subject).exists()
