"""Jobs that propose molecules: one for each form, deleted with their run, cancelled, refused."""

import json
from pathlib import Path

import pytest

from bandgap.descriptors import DescriptorConfig
from bandgap.foundation.errors import Cancelled, InputError
from bandgap.foundation.progress import Update, no_progress
from bandgap.jobs.disk import workspace_usage
from bandgap.jobs.home import Home
from bandgap.jobs.housekeeping import delete_run
from bandgap.jobs.job_process import run_job
from bandgap.jobs.proposals import load_proposals, proposal_folder, submit_proposals
from bandgap.jobs.store import Job
from bandgap.jobs.tasks.proposing import propose
from bandgap.jobs.tasks.records import Work
from bandgap.predictions.window import Window
from bandgap.sources.stored_descriptor import save_descriptor
from tests.unit.conftest import DESCRIPTOR
from tests.unit.jobs.test_starting import WS, Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def write_manifest(folder: Path, descriptor: DescriptorConfig) -> None:
    """Write what is read of a run before molecules are generated."""
    body = {
        "kind": "run",
        "schema": 1,
        "request": {"baseline": ""},
        "descriptor": save_descriptor(folder, descriptor),
    }
    (folder / "manifest.json").write_text(json.dumps(body), encoding="utf-8")


def submitted(store: Store, run: str, *, key: str = "a form") -> Job:
    return submit_proposals(
        store.jobs,
        WS,
        run=run,
        dataset=store.dataset.id,
        window=Window(1.0, 1.5),
        count=5,
        generated=10,
        seed=0,
        key=key,
    )


def test_same_form_gives_the_same_job(store: Store) -> None:
    run = store.start().run
    first = submitted(store, run)
    assert submitted(store, run).id == first.id
    assert submitted(store, run, key="another form").id != first.id
    assert first.title == "Proposing molecules of 1 to 1.5 eV"


def test_run_is_deleted_with_its_finished_proposals_but_not_while_one_is_active(
    store: Store,
) -> None:
    started = store.start()
    store.end(started)
    job = submitted(store, started.run)
    run = store.run(started.run)
    with pytest.raises(InputError, match="Proposing molecules of 1 to 1.5 eV is queued"):
        delete_run(store.jobs, store.library, run)
    assert store.jobs.claim("w") is not None
    store.jobs.end(job.id, "finished")
    folder = proposal_folder(store.home, run.id, job.id)
    folder.mkdir(parents=True)
    delete_run(store.jobs, store.library, run)
    assert not folder.exists()
    assert store.jobs.job(WS, job.id) is None


def test_run_that_does_not_exist_is_refused(store: Store) -> None:
    job = submitted(store, "00000000-0000-4000-8000-000000000000")
    with pytest.raises(InputError, match="no such run"):
        propose(Work(job, store.home, no_progress))


def test_cancelled_job_leaves_no_list(store: Store) -> None:
    started = store.start()
    job = submitted(store, started.run)
    folder = store.home.run_folder(started.run)
    folder.mkdir(parents=True)
    write_manifest(folder, DESCRIPTOR)

    def cancel(update: Update) -> None:
        raise Cancelled("The job was cancelled.")

    with pytest.raises(Cancelled):
        propose(Work(job, store.home, cancel))
    assert not proposal_folder(Home(store.home.folder), started.run, job.id).exists()


def test_job_over_the_quota_is_not_started(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists that are stored already count towards the quota."""
    started = store.start()
    store.end(started)
    first = submitted(store, started.run)
    folder = proposal_folder(store.home, started.run, first.id)
    folder.mkdir(parents=True)
    (folder / "proposed.csv").write_bytes(bytes(3_000))
    assert workspace_usage(store.library, WS).runs == 3_000
    monkeypatch.setenv("BANDGAP_QUOTA_GB", "0.000002")
    claimed = store.jobs.claim("w")
    assert claimed is not None and claimed.id == first.id
    run_job(store.jobs, claimed)
    ended = store.jobs.job(WS, first.id)
    assert ended is not None and ended.state == "failed"
    assert "of at most 2e-06 GB" in ended.error and "BANDGAP_QUOTA_GB" in ended.error


def test_list_without_structural_alerts_has_a_column_of_texts(store: Store) -> None:
    """A column of empty cells would be one of numbers, in which pandas refuses texts."""
    started = store.start()
    folder = proposal_folder(store.home, started.run, "0" * 8)
    folder.mkdir(parents=True)
    (folder / "proposed.csv").write_text("rank,smiles,alerts\n1,CC,\n2,CO,\n")
    (folder / "drawings.json").write_text('["", ""]')
    (folder / "description.json").write_text("{}")
    alerts = load_proposals(store.home, started.run, "0" * 8).table["alerts"]
    assert alerts.isna().all() and alerts.dtype == "str"
