"""The bin: what is deleted on a page is restored with all that belonged to it, for 30 days."""

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.foundation.errors import InputError
from bandgap.jobs.deletions import (
    KEPT_DAYS,
    bin_run,
    deletions,
    drop_old_deletions,
    empty_bin,
    restore,
)
from bandgap.jobs.disk import workspace_usage
from bandgap.jobs.rows import RunRow
from bandgap.jobs.run_notes import run_notes, set_run_note
from bandgap.jobs.starting import start_transfer
from bandgap.jobs.worker import work_all
from tests.app.conftest import Workspace, texts
from tests.app.test_actions import click
from tests.app.worlds import Owned

Visit = Callable[..., AppTest]


@pytest.fixture
def workspace(owned: Owned) -> Workspace:
    return owned.workspace


def run_of(owned: Owned) -> RunRow:
    run = owned.workspace.library.run(owned.workspace.id, owned.runs[0])
    assert run is not None
    return run


def test_deleted_run_is_restored_with_its_prediction_and_note(visit: Visit, owned: Owned) -> None:
    workspace = owned.workspace
    set_run_note(workspace.library, workspace.id, owned.runs[0], "mine")
    at = click(visit("train", run=owned.runs[0]), "Delete this run")
    assert "0 waters is deleted. The bin at the end of this page keeps it" in texts(at)
    assert owned.runs[0] not in {run.id for run in workspace.library.runs(workspace.id)}
    assert workspace.jobs.jobs(workspace.id, kinds=["predict"]) == []
    assert "0 waters" not in texts(visit("result", run=owned.runs[0]))
    at = click(visit("train"), "Restore")
    assert "0 waters is restored." in texts(at) and not deletions(workspace.library, workspace.id)
    at = visit("predict", run=owned.runs[0], prediction=owned.prediction)
    assert len(at.dataframe[0].value) == 2
    assert run_notes(workspace.library, workspace.id)[owned.runs[0]] == "mine"


def test_deleted_data_set_is_restored_with_its_gaps_and_name(visit: Visit, owned: Owned) -> None:
    workspace = owned.workspace
    at = visit("data", data=owned.dataset)
    at = click(at, "Delete this data set")
    assert workspace.library.datasets(workspace.id) == []
    assert r"Data set: waters \(deleted\)." in texts(visit("result", run=owned.runs[0]))
    (table,) = [frame.value for frame in visit("train").dataframe if "data set" in frame.value]
    assert set(table["data set"]) == {"waters (deleted)"}
    at = click(at, "Restore")
    assert "60 have a gap and can be learned from" in texts(at)
    assert "Data set: waters." in texts(visit("result", run=owned.runs[0]))
    assert workspace.library.deleted_datasets(workspace.id) == {}


def test_deleted_source_model_is_restored(visit: Visit, owned: Owned) -> None:
    at = click(visit("sources", source=owned.source), "Delete this source model")
    assert list(at.dataframe[0].value["source model"]) == ["demo molecules"]
    at = click(at, "Undo")
    assert list(at.dataframe[0].value["source model"]) == ["demo molecules", "my source"]
    assert "my source is restored." in texts(at) and at.query_params["source"] == owned.source


def test_undo_of_what_is_no_longer_in_the_bin_says_so(visit: Visit, owned: Owned) -> None:
    at = click(visit("train", run=owned.runs[0]), "Delete this run")
    workspace = owned.workspace
    empty_bin(workspace.jobs, workspace.library, workspace.id)
    assert "no longer in the bin" in click(at, "Undo").error[0].value


def test_emptied_bin_leaves_no_files(visit: Visit, owned: Owned) -> None:
    workspace = owned.workspace
    click(visit("train", run=owned.runs[0]), "Delete this run")
    usage = workspace_usage(workspace.library, workspace.id)
    assert usage.bin > 0 and usage.total == usage.uploads + usage.runs + usage.bin
    at = visit("train")
    at.checkbox(key="sure-bin").set_value(True).run()
    click(at, "Empty the bin")
    assert not workspace.home.run_folder(owned.runs[0]).exists()
    assert workspace_usage(workspace.library, workspace.id).bin == 0
    for table in ("run", "job", "dataset"):
        query = f"SELECT count(*) FROM {table} WHERE workspace LIKE 'bin %'"
        assert workspace.library.database.rows(query)[0][0] == 0, table
    with pytest.raises(InputError, match="no longer in the bin"):
        restore(workspace.library, workspace.id, "run", owned.runs[0])


def test_worker_removes_only_what_is_older_than_the_limit(owned: Owned) -> None:
    workspace = owned.workspace
    bin_run(workspace.jobs, workspace.library, run_of(owned))
    drop_old_deletions(workspace.home)
    assert len(deletions(workspace.library, workspace.id)) == 1
    with workspace.library.database.writing() as connection:
        connection.execute("UPDATE deletion SET time = time - ?", ((KEPT_DAYS + 1) * 86_400.0,))
    work_all(workspace.home)
    drop_old_deletions(workspace.home)
    assert deletions(workspace.library, workspace.id) == []
    assert not workspace.home.run_folder(owned.runs[0]).exists()


def test_transfer_that_is_started_again_takes_the_place_of_the_deleted_one(owned: Owned) -> None:
    workspace = owned.workspace
    dataset = workspace.library.dataset(workspace.id, owned.dataset)
    request = run_of(owned).request.changed(seed=5)

    def start() -> str:
        started = start_transfer(
            workspace.jobs,
            workspace.library,
            dataset,
            source="demo",
            request=request,
            title="seed 5",
        )
        work_all(workspace.home)
        assert started.new
        return started.run

    run_id = start()
    run = workspace.library.run(workspace.id, run_id)
    assert run is not None
    bin_run(workspace.jobs, workspace.library, run)
    assert start() == run_id
    assert deletions(workspace.library, workspace.id) == []
    empty_bin(workspace.jobs, workspace.library, workspace.id)
    assert (workspace.home.run_folder(run_id) / "manifest.json").is_file()


def test_bin_is_of_its_workspace_alone(visit: Visit, owned: Owned) -> None:
    workspace = owned.workspace
    bin_run(workspace.jobs, workspace.library, run_of(owned))
    stranger = "00000000-0000-4000-8000-000000000000"
    assert "Restore" not in [button.label for button in visit("train", ws=stranger).button]
    with pytest.raises(InputError, match="no longer in the bin"):
        restore(workspace.library, stranger, "run", owned.runs[0])
    for address in (f"bin {workspace.id}", workspace.id):
        at = visit("result", ws=address, run=owned.runs[0])
        assert "0 waters" not in texts(at)


def test_restored_run_gets_back_structures_that_a_later_deletion_took(owned: Owned) -> None:
    workspace = owned.workspace
    (prediction,) = workspace.jobs.jobs(workspace.id, kinds=["predict"])
    new = str(prediction.payload["dataset"])
    other = workspace.library.run(workspace.id, owned.runs[1])
    assert other is not None
    workspace.ask_prediction(other.id, new)
    work_all(workspace.home)
    bin_run(workspace.jobs, workspace.library, run_of(owned))
    bin_run(workspace.jobs, workspace.library, other)
    restore(workspace.library, workspace.id, "run", owned.runs[0])
    empty_bin(workspace.jobs, workspace.library, workspace.id)
    assert workspace.library.dataset(workspace.id, new).id == new


def test_run_that_a_job_uses_is_not_deleted(owned: Owned) -> None:
    workspace = owned.workspace
    workspace.ask_prediction(owned.runs[0], owned.dataset)
    with pytest.raises(InputError, match="Predicting new is queued. Cancel it first"):
        bin_run(workspace.jobs, workspace.library, run_of(owned))
    assert deletions(workspace.library, workspace.id) == []
